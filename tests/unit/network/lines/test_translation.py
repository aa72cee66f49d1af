"""Prefixes become others address by address, and what cannot be told apart is refused."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from gpupool.base.errors import BadAddress, GpupoolError, OverlappingSubnets
from gpupool.network.lines.translation import Translation, see_inside, see_outside
from gpupool.network.northbound import compile_network
from tests.support.dedicated_lines import KEY, make_line
from tests.unit.network.networks import make_network

OURS = {"inside": "10.0.0.0/24", "outside": "100.64.7.0/24"}
THEIRS = {"inside": "100.64.8.0/24", "outside": "10.0.0.0/24"}
PAIR = Translation(IPv4Network("100.64.8.0/24"), IPv4Network("10.0.0.0/24"))


def make_translated(**more: Any) -> Any:
    fields = {
        "allowed": ["10.0.0.0/24", "172.20.0.0/16"],
        "translations": [OURS],
        "peer_translations": [THEIRS],
        **more,
    }
    return make_line(**fields)


@pytest.mark.parametrize(
    ("outside", "inside"),
    [
        ("10.0.0.0/24", "100.64.8.0/24"),
        ("10.0.0.128/25", "100.64.8.128/25"),
        ("10.0.0.77/32", "100.64.8.77/32"),
        ("172.20.0.0/16", "172.20.0.0/16"),
    ],
)
def test_a_part_of_a_prefix_is_the_same_part_on_the_other_side(outside: str, inside: str) -> None:
    assert see_inside(IPv4Network(outside), [PAIR]) == IPv4Network(inside)
    assert see_outside(IPv4Network(inside), [PAIR]) == IPv4Network(outside)


def test_routes_lead_to_the_speaker_and_only_translated_sources_pass() -> None:
    learned = tuple(map(IPv4Network, ("10.0.0.128/25", "172.20.1.0/24")))
    line = replace(make_translated(), learned=learned)
    rows = {row.key: row for row in compile_network(replace(make_network(1, 1), lines=(line,)))}
    routes = [row.columns for row in rows.values() if row.table == "Logical_Router_Static_Route"]
    assert routes == [
        {"ip_prefix": "100.64.8.128/25", "nexthop": "192.168.200.2"},
        {"ip_prefix": "172.20.1.0/24", "nexthop": "192.168.200.2"},
    ]
    match = str(rows[f"line-policy/{KEY}"].columns["match"])
    assert "ip4.src != {192.168.200.0/29, 100.64.8.0/24, 172.20.0.0/16}" in match
    speaker = rows[f"line-speaker/{KEY}"].columns
    assert str(speaker["port_security"]).endswith(
        " 192.168.200.2 100.64.7.0/24 100.64.8.0/24 172.20.0.0/16',)"
    )
    assert line.list_learned() == learned


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        (
            {"translations": [{**OURS, "outside": "100.64.7.0/25"}]},
            BadAddress,
            "10.0.0.0/24 has 24 bits and 100.64.7.0/25 25",
        ),
        (
            {"translations": [OURS, {"inside": "10.0.1.0/24", "outside": "100.64.7.0/24"}]},
            OverlappingSubnets,
            "--translate: 100.64.7.0/24 overlaps 100.64.7.0/24 of another translation",
        ),
        (
            {"translations": [{**OURS, "outside": "172.20.9.0/24"}]},
            OverlappingSubnets,
            "172.20.9.0/24 and 172.20.0.0/16 of what --allow names",
        ),
        (
            {"translations": [{**OURS, "outside": "192.168.200.0/24"}]},
            OverlappingSubnets,
            "192.168.200.0/29 of the line's own link",
        ),
        (
            {"peer_translations": [{**THEIRS, "outside": "10.0.9.0/24"}]},
            BadAddress,
            "--translate-peer: 10.0.9.0/24 is not of what --allow names: 10.0.0.0/24, ",
        ),
    ],
)
def test_what_cannot_be_translated_is_refused(
    more: dict[str, Any], error: type[GpupoolError], text: str
) -> None:
    with pytest.raises(error) as refused:
        make_translated(**more)
    assert text in str(refused.value)
