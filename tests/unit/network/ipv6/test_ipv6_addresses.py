"""IPv6 prefixes and addresses: unique local ones, of the network's own, and never given twice."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest

from gpupool.base.errors import BadAddress, SubnetFull
from gpupool.network.ipv6.addresses import (
    BALANCER_PREFIX,
    POOL_PREFIX,
    RESOLVER_PREFIX,
    UNIQUE_LOCAL,
    choose_address,
    choose_prefix,
    derive_site,
    find_balancer_address,
    find_link_address,
    list_reserved,
    parse_address,
    parse_cidr,
    parse_prefix,
)

CIDR = IPv6Network("fd12:3456:789a::/64")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.0.0.0/24", "not an IPv6 prefix"),
        ("", "not an IPv6 prefix"),
        ("fe80::1%eth0/64", "names an address inside a prefix"),
        ("fd12:3456:789a::", "has no prefix length"),
        ("fd12:3456:789a::5/64", "names an address inside a prefix"),
        ("fd12:3456:789a::/48", "a prefix of 64 bits; fd12:3456:789a::/48 has 48"),
        ("fd12:3456:789a::/65", "has 65"),
        ("2001:db8::/64", "outside of fd00::/8"),
        ("fc00::/64", "outside of fd00::/8"),
        ("fd67:7075:706f:ffff::/64", "for name servers and load balancers"),
    ],
)
def test_a_prefix_that_no_subnet_may_have_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadAddress, match=reason) as refused:
        parse_cidr(text)
    assert refused.value.hint


def test_a_prefix_is_the_same_however_it_is_written() -> None:
    assert parse_cidr("FD12:3456:789A:0000::/64") == CIDR
    assert parse_prefix("fd00::/8") == UNIQUE_LOCAL


@pytest.mark.parametrize("text", ["10.0.0.1", "", "fd12::1/64", "fe80::1%eth0"])
def test_what_is_no_address_of_a_network_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_address(text)


def test_each_network_has_a_prefix_of_its_own_that_stays() -> None:
    sites = {derive_site(f"v-{number:010}") for number in range(1000)}
    assert len(sites) == 1000
    assert all(site.subnet_of(UNIQUE_LOCAL) and site.prefixlen == 48 for site in sites)
    assert POOL_PREFIX not in sites
    assert derive_site("v-0000000001") == derive_site("v-0000000001")


def test_subnets_of_a_network_get_the_first_prefix_that_is_free() -> None:
    site = derive_site("v-1")
    first = choose_prefix(site, [CIDR])
    second = choose_prefix(site, [CIDR, first])
    assert first.subnet_of(site)
    assert (first.prefixlen, int(second[0]) - int(first[0])) == (64, 1 << 64)
    assert choose_prefix(site, [second]) == first
    with pytest.raises(SubnetFull):
        choose_prefix(site, [site])


def test_an_address_is_like_the_ipv4_one_unless_another_job_has_it() -> None:
    assert choose_address(CIDR, set(), 20) == IPv6Address("fd12:3456:789a::14")
    taken = {IPv6Address("fd12:3456:789a::14")}
    other = choose_address(CIDR, taken, 20)
    # No IPv4 subnet has as many addresses, so no other job gets it by its own.
    assert other == IPv6Address("fd12:3456:789a::1:0")
    assert choose_address(CIDR, taken | {other}, 20) == IPv6Address("fd12:3456:789a::1:1")


def test_the_pools_own_addresses_are_apart() -> None:
    assert not BALANCER_PREFIX.overlaps(RESOLVER_PREFIX)
    numbers = range(1, 3000)
    links = {find_link_address(one, is_requester=end) for one in numbers for end in (True, False)}
    balancers = {find_balancer_address(one) for one in numbers}
    assert (len(links), len(balancers)) == (5998, 2999)
    assert not links & balancers
    assert all(address in POOL_PREFIX for address in (*links, *balancers))
    assert not any(address in RESOLVER_PREFIX for address in (*links, *balancers))
    assert len(list_reserved(CIDR)) == 3
