"""Packets of one port of this machine that are lost, by a rule of nftables; needs root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def find_missing() -> str:
    """What a loss of packets lacks here; empty: nothing."""
    if os.geteuid() != 0:
        return "losing packets needs root"
    return "" if shutil.which("nft") else "no nft: apt-get install nftables"


@contextmanager
def lose_packets(port: int, percent: int) -> Iterator[PacketLoss]:
    """Lose that part of what loopback carries from and to a TCP port."""
    loss = PacketLoss(f"gpupool-loss-{port}")
    lost = f"numgen random mod 100 < {percent} counter drop"
    rules = [f'iif "lo" tcp {end} {port} {lost}' for end in ("sport", "dport")]
    hook = "type filter hook input priority 0;"
    table = "\n".join([f"table inet {loss.table} {{", "chain input {", hook, *rules, "}", "}", ""])
    subprocess.run(["nft", "-f", "-"], input=table, text=True, check=True)
    try:
        yield loss
    finally:
        subprocess.run(["nft", "delete", "table", "inet", loss.table], check=True)


class PacketLoss:
    """A rule that loses packets, and its count of them."""

    def __init__(self, table: str) -> None:
        self.table = table

    def count(self) -> int:
        """Return how many packets were lost."""
        listing = subprocess.run(
            ["nft", "-j", "list", "table", "inet", self.table],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        rules = [entry["rule"] for entry in json.loads(listing)["nftables"] if "rule" in entry]
        parts = [part for rule in rules for part in rule["expr"]]
        return sum(part["counter"]["packets"] for part in parts if "counter" in part)
