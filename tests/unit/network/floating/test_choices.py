"""Addresses are of the prefix that an admin opened, each once, and refusals give numbers."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from gpupool.base.errors import BadAddress, GpupoolError, NameTaken, TooManyNetworks, WrongState
from gpupool.network.floating.choices import choose_floating, list_usable, parse_floating_prefix

PREFIX = IPv4Network("203.0.113.32/30")
FIRST = IPv4Address("203.0.113.33")


def test_the_first_free_address_is_given_or_the_one_that_is_wanted() -> None:
    assert choose_floating(PREFIX, None, ()) == FIRST
    assert choose_floating(PREFIX, None, {FIRST}) == FIRST + 1
    assert choose_floating(PREFIX, "203.0.113.34", ()) == FIRST + 1


@pytest.mark.parametrize(("prefix", "count"), [("203.0.113.32/32", 1), ("203.0.113.32/31", 2)])
def test_small_prefixes_have_no_broadcast_address(prefix: str, count: int) -> None:
    assert len(list_usable(IPv4Network(prefix))) == count


@pytest.mark.parametrize(
    ("wanted", "error", "text"),
    [
        (None, TooManyNetworks, "all 2 floating IPs 203.0.113.33-203.0.113.34 are taken"),
        ("203.0.113.33", NameTaken, "203.0.113.33 is taken"),
        ("203.0.113.32", WrongState, "203.0.113.33 to 203.0.113.34 of 203.0.113.32/30 are"),
        ("2001:db8::1", WrongState, "2001:db8::1 is not for tenants"),
        ("eth0", BadAddress, "not an address"),
    ],
)
def test_what_cannot_be_given_is_refused(
    wanted: str | None, error: type[GpupoolError], text: str
) -> None:
    with pytest.raises(error, match=text):
        choose_floating(PREFIX, wanted, {FIRST, FIRST + 1})


def test_without_an_open_prefix_the_refusal_names_the_command() -> None:
    with pytest.raises(WrongState) as refused:
        choose_floating(None, None, ())
    assert "network enable --floating-ips" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("203.0.113.32", "has no prefix length"),
        ("10.0.0.0/8", "16 to 32 bits; 10.0.0.0/8 has 8"),
        ("198.18.4.0/24", "overlaps 198.18.0.0/16"),
        ("127.0.0.0/24", "loopback"),
        ("224.0.0.0/24", "multicast"),
    ],
)
def test_a_prefix_that_nothing_outside_reaches_is_not_opened(text: str, message: str) -> None:
    with pytest.raises(BadAddress, match=message):
        parse_floating_prefix(text)
    assert parse_floating_prefix("203.0.113.32/28") == IPv4Network("203.0.113.32/28")
