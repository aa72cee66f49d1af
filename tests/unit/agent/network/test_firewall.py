"""Rules for nftables: their words, and what the kernel's own parser says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from ipaddress import IPv4Network

import pytest

from gpupool.agent.network.firewall import format_rules
from gpupool.wire.network.firewall import FirewallWork

UPLINK = IPv4Network("198.18.0.0/16")
RULES = [
    FirewallWork(action="allow", direction="out", prefix="10.1.0.0/16", protocol="any"),
    FirewallWork(
        action="deny",
        direction="out",
        prefix="10.0.0.0/8",
        protocol="tcp",
        first_port=25,
        last_port=30,
        gateway="198.18.0.3",
    ),
    FirewallWork(
        action="deny",
        direction="in",
        prefix="203.0.113.0/24",
        protocol="udp",
        first_port=53,
        last_port=53,
    ),
    FirewallWork(action="deny", direction="out", prefix="0.0.0.0/0", protocol="any"),
    FirewallWork(action="allow", direction="out", prefix="2001:db8::/32", protocol="icmp"),
    FirewallWork(
        action="deny",
        direction="in",
        prefix="::/0",
        protocol="tcp",
        first_port=80,
        last_port=90,
        gateway="fd67:7075:706f:c612::3",
    ),
    FirewallWork(
        action="allow",
        direction="in",
        prefix="192.0.2.0/24",
        protocol="any",
        gateway="198.18.0.3",
        others=["198.18.128.1", "198.18.128.4"],
    ),
]


def test_rules_name_the_addresses_with_which_a_connection_began() -> None:
    assert format_rules(RULES, UPLINK) == [
        "ct original ip saddr 198.18.0.0/16 ct original ip daddr 10.1.0.0/16 return",
        (
            "ct original ip saddr 198.18.0.3 ct original ip daddr 10.0.0.0/8 meta l4proto tcp "
            "ct original proto-dst 25-30 reject with tcp reset"
        ),
        (
            "ct original ip saddr 203.0.113.0/24 ct reply ip saddr 198.18.0.0/16 meta l4proto udp "
            "ct original proto-dst 53-53 reject with icmpx admin-prohibited"
        ),
        (
            "ct original ip saddr 198.18.0.0/16 ct original ip daddr 0.0.0.0/0 meta l4proto tcp "
            "reject with tcp reset"
        ),
        (
            "ct original ip saddr 198.18.0.0/16 ct original ip daddr 0.0.0.0/0 "
            "reject with icmpx admin-prohibited"
        ),
        (
            "ct original ip6 saddr fd67:7075:706f:c612::/64 ct original ip6 daddr 2001:db8::/32 "
            "meta l4proto icmpv6 return"
        ),
        (
            "ct original ip6 saddr ::/0 ct reply ip6 saddr fd67:7075:706f:c612::3 "
            "meta l4proto tcp ct original proto-dst 80-90 reject with tcp reset"
        ),
        (
            "ct original ip saddr 192.0.2.0/24 ct reply ip saddr "
            "{ 198.18.0.3, 198.18.128.1, 198.18.128.4 } return"
        ),
    ]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("nft") is None, reason="needs nft and root")
def test_nftables_understands_each_rule() -> None:
    lines = "\n".join(format_rules(RULES, UPLINK))
    table = f"table inet gpupool_check {{\nchain boundary {{\n{lines}\n}}\n}}\n"
    done = subprocess.run(
        ["nft", "--check", "-f", "-"], input=table, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
