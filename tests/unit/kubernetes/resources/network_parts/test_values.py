"""Names, addresses and prefixes as operators write them."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any

import pytest

from gpupool.base.errors import BadAddress, BadOption
from gpupool.kubernetes.resources.network_parts import values


@pytest.mark.parametrize("name", ["", "A", "a--b", "-a", "a" * 21])
def test_a_name_that_would_not_fit_a_label_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="names no part of a network"):
        values.read_name({"name": name})


def test_a_prefix_has_the_family_that_its_text_says() -> None:
    assert values.read_any_prefix("10.0.0.0/8") == IPv4Network("10.0.0.0/8")
    assert values.read_any_prefix("fd00::/8") == IPv6Network("fd00::/8")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (values.read_prefix, "10.0.0.1/8"),
        (values.read_prefix, "fd00::/64"),
        (values.read_prefix6, "fd00::1/64"),
        (values.read_prefix6, "10.0.0.0/8"),
        (values.read_address, "10.0.0.256"),
        (values.read_address6, "10.0.0.1"),
    ],
)
def test_text_that_is_no_address_is_refused(read: Callable[[object], Any], text: str) -> None:
    with pytest.raises(BadAddress, match=f"'{text}' is not an IPv"):
        read(text)


def test_the_first_and_the_last_address_are_no_hosts() -> None:
    cidr = IPv4Network("10.1.0.0/24")
    values.check_host(IPv4Address("10.1.0.1"), cidr, "x")
    for text in ("10.1.0.0", "10.1.0.255", "10.2.0.1"):
        with pytest.raises(BadAddress, match=f"{text} is not a host of x"):
            values.check_host(IPv4Address(text), cidr, "x")
