"""Accepted traffic as rules of the switch: what they drop is exactly what is not accepted."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Any

import pytest

from gpupool.kubernetes.networks.kube_ovn import Json
from gpupool.kubernetes.networks.traffic_compiler import (
    DroppedTraffic,
    compile_traffic,
    list_dropped,
)
from gpupool.kubernetes.resources.network_parts.subnets import AcceptedTraffic, read_subnet

CIDR = IPv4Network("10.1.0.0/24")
#: Of NetworkPolicies in Kube-OVN 1.17.0.
POLICY_DROP = 2_000
POLICY_ALLOW = 2_001


def compile_rules(accepts: list[Json] | None, **fields: Any) -> list[Json]:
    found = {"name": "main", "cidr": str(CIDR), "accepts": accepts, **fields}
    return compile_traffic(read_subnet(found))


def list_matches(accepts: list[Json], **fields: Any) -> list[str]:
    return [one["match"] for one in compile_rules(accepts, **fields) if one["action"] == "drop"]


def test_a_subnet_that_names_no_traffic_takes_everything() -> None:
    assert compile_rules(None) == []


def test_a_network_policy_can_narrow_accepted_traffic_and_not_widen_it() -> None:
    rules = compile_rules([{"protocol": "tcp", "port": 80}], cidr6="fd00:1::/64")
    for rule in rules:
        if rule["action"] != "drop":
            assert rule["priority"] < POLICY_DROP
    before = [one["match"] for one in rules if one["priority"] > POLICY_ALLOW]
    for words in ("&& tcp &&", "&& udp", "&& icmp4", "&& icmp6", "&& ip.proto == {2, 4,"):
        assert any(words in match for match in before), words


def test_a_closed_subnet_takes_packets_of_its_own_pods_alone() -> None:
    drop, track = compile_rules([], cidr="0.0.0.0/1", gateway="10.0.0.1")
    assert drop["match"] == "ip4.dst == 0.0.0.0/1 && ip4.src == {128.0.0.0/1}"
    assert (track["match"], track["action"]) == ("ip4.dst == 0.0.0.0/1", "allow-related")


def test_both_families_are_closed() -> None:
    both = list_matches([], cidr6="fd00:1::/64")
    assert [match.partition(" && ")[0] for match in both] == [
        "ip4.dst == 10.1.0.0/24",
        "ip6.dst == fd00:1::/64",
    ]


def test_a_source_of_one_family_accepts_nothing_of_the_other() -> None:
    closed = list_matches([], cidr6="fd00:1::/64")
    half = list_matches([{"from": "fd00:9::/64"}], cidr6="fd00:1::/64")
    assert half[0] == closed[0]
    assert half[1] != closed[1]


def test_everything_accepted_drops_nothing() -> None:
    assert list_matches([{}], cidr6="fd00:1::/64") == []


def test_an_accepted_port_is_cut_out_of_its_protocol() -> None:
    dropped = list_dropped(CIDR, [AcceptedTraffic("tcp", 80, 90)])
    ports = [(one.first_port, one.last_port) for one in dropped if one.protocol == "tcp"]
    assert ports == [(0, 79), (91, 65_535)]
    assert [one.protocol for one in dropped] == ["tcp", "tcp", "udp", "icmp", "others"]


def test_matches_name_protocol_and_ports() -> None:
    fields = {"cidr": "0.0.0.0/1", "gateway": "10.0.0.1"}
    begin = "ip4.dst == 0.0.0.0/1 && ip4.src == {128.0.0.0/1}"
    rules = compile_rules([{"protocol": "tcp", "port": 80}, {"protocol": "icmp"}], **fields)
    assert [(one["priority"], one["match"]) for one in rules] == [
        (2_500, f"{begin} && tcp && tcp.dst <= 79"),
        (2_500, f"{begin} && tcp && tcp.dst >= 81"),
        (2_500, f"{begin} && udp"),
        (2_500, f"{begin} && ip.proto == {{2, 4, 41, 47, 50, 51, 132}}"),
        (1_100, "ip4.dst == 0.0.0.0/1 && tcp"),
        (1_100, "ip4.dst == 0.0.0.0/1 && udp"),
        (1_100, "ip4.dst == 0.0.0.0/1 && icmp4"),
        (1_000, begin),
        (900, "ip4.dst == 0.0.0.0/1"),
    ]


def is_accepted(
    accepts: list[AcceptedTraffic], source: IPv4Address, protocol: str, port: int
) -> bool:
    """What the field says, as simply as it can be written."""
    if source in CIDR:
        return True
    for one in accepts:
        if one.protocol not in ("any", protocol) or (one.source and source not in one.source):
            continue
        if one.first_port is None or one.last_port is None:
            return True
        if one.first_port <= port <= one.last_port:
            return True
    return False


def is_dropped(
    dropped: list[DroppedTraffic], source: IPv4Address, protocol: str, port: int
) -> bool:
    hits = 0
    for one in dropped:
        is_named = one.protocol in ("any", protocol) and one.first_port <= port <= one.last_port
        hits += is_named and any(source in prefix for prefix in one.sources)
    assert hits <= 1
    return bool(hits)


@pytest.mark.parametrize("seed", range(12))
def test_a_packet_is_dropped_unless_it_is_accepted(seed: int) -> None:
    dice = random.Random(seed)
    accepts = []
    for _ in range(dice.randrange(5)):
        protocol = dice.choice(["any", "tcp", "udp", "icmp"])
        first = (
            dice.randrange(1, 60) if protocol in ("tcp", "udp") and dice.random() < 0.7 else None
        )
        last = None if first is None else first + dice.randrange(30)
        source = None
        if dice.random() < 0.7:
            length = dice.randrange(4, 30)
            source = ip_network((dice.getrandbits(32) >> 3, length), strict=False)
        accepts.append(AcceptedTraffic(protocol, first, last, source))
    dropped = list_dropped(CIDR, accepts)
    near = [one.source[0] for one in accepts if one.source is not None]
    for _ in range(300):
        source_address = IPv4Address(dice.getrandbits(32))
        if near and dice.random() < 0.5:
            source_address = IPv4Address((int(dice.choice(near)) + dice.randrange(-2, 3)) % 2**32)
        elif dice.random() < 0.2:
            source_address = CIDR[dice.randrange(256)]
        kind = dice.choice(["tcp", "udp", "icmp", "others"])
        port = dice.randrange(95) if kind in ("tcp", "udp") else 0
        wanted = not is_accepted(accepts, source_address, kind, port)
        assert is_dropped(dropped, source_address, kind, port) == wanted
