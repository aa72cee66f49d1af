"""Floating IPs move with the gateways between the machines of a pair, with the real OVN."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.test_network_gateways import TALK
from tests.support.gateway_pool import (
    GatewayPool,
    find_missing_packages,
    gateway_pool,
    list_addresses,
)
from tests.support.network_machines import Machine

_MISSING = find_missing_packages()
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

#: Sends back what it gets.
ECHO = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    while data := peer.recv(65536):
        peer.sendall(data)
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[GatewayPool]:
    with gateway_pool() as made:
        prefix = made.outside.router.rpartition(".")[0]
        made.pool.do("network", "enable", "--floating-ips", f"{prefix}.64/28")
        made.pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
        made.make_pair()
        made.pool.do("network", "gateway-create", "lab")
        words = ("submit", "--network", "lab", "--gpu", "1", "--label", "at=sim-0")
        made.pool.do(*words, "--name", "echo", "--", sys.executable, "-c", ECHO)
        made.pool.until_state("echo", "running")
        yield made


class Talk:
    """One connection from outside to a floating IP, which has to survive a move."""

    def __init__(self, machines: GatewayPool, address: str, ticks: Path) -> None:
        self._pool = machines.pool
        self._ticks = ticks
        space = f"--net=/run/netns/{machines.outside.space}"
        words = ["nsenter", space, sys.executable, "-c", TALK, address, str(ticks)]
        self.process = subprocess.Popen(words)

    def count(self) -> int:
        return int(self._ticks.read_text() or "0") if self._ticks.exists() else 0

    def check(self) -> None:
        before = self.count()
        self._pool.until(lambda: self.count() > before + 20, "more answers")
        assert self.process.poll() is None


def list_owners(machines: GatewayPool, address: str) -> list[Machine]:
    return [one for one in machines.members if f"{address}/32" in list_addresses(one)]


def test_a_floating_ip_and_its_connections_move_with_the_gateways(
    machines: GatewayPool, tmp_path: Path
) -> None:
    made = machines.pool.json("network", "floating-ip-create", "lab", "echo")
    assert made["state"] == "reachable", made
    address = made["address"]
    first = machines.find_active()
    peer = machines.find_peer(first)
    assert list_owners(machines, address) == [first]
    talk = Talk(machines, address, tmp_path / "ticks")
    try:
        talk.check()
        machines.outside.set_path(first, is_up=False)
        machines.wait_for_roles(peer, "away")
        talk.check()
        assert list_owners(machines, address) == [peer]
        machines.outside.set_path(first, is_up=True)
        machines.wait_for_roles(peer, "standby")
        talk.check()

        def is_reachable() -> bool:
            shown = machines.pool.json("network", "floating-ip-show", "lab", address)
            return bool(shown["state"] == "reachable")

        # The probe is the active machine's, and a busy one may be late with its answer.
        machines.pool.until(is_reachable, "a probe of the active machine")
    finally:
        talk.process.kill()
        talk.process.wait()
    machines.pool.do("network", "floating-ip-delete", "lab", address)
    machines.pool.until(lambda: not list_owners(machines, address), "an address of no machine")
    # The pair's own address stays where it is.
    assert machines.outside.address in list_addresses(peer)
