"""What is asked of a line is refused with the clashing addresses, before anything is written."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest
from pydantic import ValidationError

from gpupool.base.errors import BadAddress, OverlappingSubnets
from gpupool.network.lines.checks import check_announced, check_usable
from tests.support.dedicated_lines import make_body, make_line


def test_the_speaker_has_the_address_behind_the_routers_unless_named() -> None:
    assert str(make_line().speaker) == "192.168.200.2"
    assert str(make_line(speaker="192.168.200.3").speaker) == "192.168.200.3"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"address": "192.168.200.1"}, "29 bits"),
        ({"address": "192.168.200.1/30"}, "29 bits"),
        ({"address": "x/29"}, "not an IPv4 address"),
        ({"peer": "192.168.200.2"}, "need an address each"),
        ({"peer": "192.168.200.7"}, "no address of a host"),
        ({"peer": "192.168.201.6"}, "no address of a host"),
        ({"peer": "fe80::1"}, "carry IPv4 alone, and fe80::1 is of IPv6"),
        ({"address": "fd12:3456:789a:1::1/64"}, "carry IPv4 alone"),
        ({"speaker": "fd12:3456:789a:1::2"}, "carry IPv4 alone"),
        ({"allowed": ["172.20.0.0/16", "fd12:3456:789a::/64"]}, "fd12:3456:789a::/64 is of IPv6"),
        ({"peer_asn": 64512}, "both ends"),
        ({"allowed": ["172.20.0.1/16"]}, "172.20.0.0/16"),
    ],
)
def test_a_link_that_cannot_work_is_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(BadAddress) as refusal:
        make_line(**more)
    assert text in f"{refusal.value.message} {refusal.value.hint}"


def test_the_links_own_prefix_may_not_be_announced() -> None:
    with pytest.raises(OverlappingSubnets, match=r"192.168.0.0/16 and 192.168.200.0/29"):
        make_line(allowed=["192.168.0.0/16"])


@pytest.mark.parametrize("prefix", ["0.0.0.0/0", "127.0.0.0/8", "224.0.0.0/4", "100.126.0.0/16"])
def test_prefixes_that_no_company_has_are_refused(prefix: str) -> None:
    with pytest.raises(BadAddress, match=prefix):
        check_usable([IPv4Network(prefix)])


def test_only_subnets_of_the_network_are_announced() -> None:
    check_announced(["10.0.0.0/24"], ["10.0.0.0/24", "10.0.1.0/24"])
    with pytest.raises(BadAddress, match=r"10.0.2.0/24: no subnet"):
        check_announced(["10.0.2.0/24"], ["10.0.0.0/24"])


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "tab\t", "", "x" * 81, "ключ"])
def test_a_key_that_would_be_another_command_is_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        make_body(key=key)


def test_a_key_is_shown_by_no_representation() -> None:
    assert "hidden-key" not in repr(make_body(key="hidden-key"))
