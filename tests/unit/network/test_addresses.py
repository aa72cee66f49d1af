"""Prefixes and addresses: what is accepted, what is refused, and that none is given twice."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadAddress, OverlappingSubnets, SubnetFull
from gpupool.network.addresses import (
    check_overlap,
    choose_address,
    count_port_addresses,
    find_gateway,
    find_offset,
    parse_cidr,
)

SMALL = IPv4Network("10.0.0.0/28")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("10.0.0.0/8", "has 8"),
        ("10.0.0.0/29", "has 29"),
        ("10.0.0.5/24", "names an address inside a prefix"),
        ("10.0.0.0", "no prefix length"),
        ("fd00::/64", "not an IPv4 prefix"),
        ("ten", "not an IPv4 prefix"),
        ("127.0.0.0/16", "no port may use"),
        ("169.254.0.0/16", "no port may use"),
        ("224.0.0.0/24", "no port may use"),
        ("255.255.0.0/16", "no port may use"),
    ],
)
def test_parse_cidr_of_a_bad_prefix_says_what_is_wrong(text: str, sentence: str) -> None:
    with pytest.raises(BadAddress, match=sentence):
        parse_cidr(text)


def test_parse_cidr_of_host_bits_names_the_prefix() -> None:
    with pytest.raises(BadAddress) as caught:
        parse_cidr("10.0.0.5/24")
    assert "10.0.0.0/24" in caught.value.hint


def test_check_overlap_names_every_clashing_subnet() -> None:
    others = [IPv4Network("10.0.0.0/25"), IPv4Network("10.0.1.0/24"), IPv4Network("10.0.0.128/25")]
    with pytest.raises(OverlappingSubnets) as caught:
        check_overlap(IPv4Network("10.0.0.0/24"), others)
    assert caught.value.details["clashing"] == ["10.0.0.0/25", "10.0.0.128/25"]
    check_overlap(IPv4Network("10.0.2.0/24"), others)


def test_choose_address_of_a_full_subnet_is_refused_with_the_number() -> None:
    taken = set(SMALL)
    with pytest.raises(SubnetFull) as caught:
        choose_address(SMALL, taken, 0)
    assert caught.value.details["addresses"] == count_port_addresses(SMALL) == 13


def test_a_freed_address_is_used_again_last() -> None:
    taken = set[IPv4Address]()
    first = choose_address(SMALL, taken, 0)
    following = choose_address(SMALL, taken, find_offset(SMALL, first) + 1)
    assert following == first + 1


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=120), st.integers(20, 28))
def test_no_address_is_given_twice_and_none_is_reserved(
    steps: list[int | None], prefix: int
) -> None:
    """Over any order of grants (None) and releases (the number of a port)."""
    cidr = IPv4Network(f"10.20.0.0/{prefix}")
    ports = list[IPv4Address]()
    offset = 0
    for step in steps:
        if step is not None:
            del ports[step : step + 1]
            continue
        if len(ports) == count_port_addresses(cidr):
            with pytest.raises(SubnetFull):
                choose_address(cidr, set(ports), offset)
            continue
        chosen = choose_address(cidr, set(ports), offset)
        assert chosen not in ports
        assert chosen in cidr
        assert chosen not in (cidr[0], find_gateway(cidr), cidr[-1])
        offset = find_offset(cidr, chosen) + 1
        ports.append(chosen)
