"""What IPv6 adds to the rows of a network, and that it adds nothing to a network without it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

import pytest

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.ipv6.addresses import (
    BALANCER_PREFIX,
    POOL_PREFIX,
    RESOLVER_PREFIX,
    derive_uplink,
    find_balancer_address,
    find_proxy_address,
)
from gpupool.network.model import Network, PeeringEnd, make_gateway
from gpupool.network.northbound import compile_network
from gpupool.network.resolver_rows import read_resolver
from gpupool.network.rows import NorthboundRow
from gpupool.network.security.model import SecurityGroup, SecurityRule
from tests.unit.network.networks import make_network

CIDR6 = IPv6Network("fd12:3456:789a::/64")
UPLINK = IPv4Network("198.18.0.0/16")
PEER = PeeringEnd(1, "p-1", True, (IPv4Network("10.9.0.0/24"),), link=1)
BALANCER = LoadBalancer(3, "b-1", "api", "tcp", 443, 80, ("job-1000", "job-1001"), True)


@pytest.fixture
def network() -> Network:
    """Two jobs with IPv6, a peering, a gateway, and a balancer that is checked."""
    plain = make_network(1, 2)
    (subnet,) = plain.subnets
    return replace(
        plain,
        id=1,
        subnets=(replace(subnet, cidr6=CIDR6, probe=subnet.cidr[254]),),
        ports=tuple(
            replace(port, address6=CIDR6[10 + n], groups=("g-web",))
            for n, port in enumerate(plain.ports)
        ),
        peerings=(replace(PEER, prefixes6=(IPv6Network("fd99::/64"),)),),
        gateway=make_gateway(1, UPLINK),
        groups=(SecurityGroup("g-web", "web", (SecurityRule("r", "icmp"),)),),
        balancers=(BALANCER,),
    )


def index(network: Network) -> dict[str, NorthboundRow]:
    return {row.key: row for row in compile_network(network)}


def test_a_port_sends_from_its_two_addresses_alone(network: Network) -> None:
    row = index(network)[f"port/{network.ports[0].key}"]
    address = "0a:00:00:00:03:e8 10.0.0.10 fd12:3456:789a::a"
    assert row.columns["addresses"] == row.columns["port_security"] == (address,)
    assert row.references["dhcpv6_options"] == {"dhcp6/s-0000000001"}


def test_the_router_has_an_address_and_tells_guests_to_ask_for_theirs(network: Network) -> None:
    rows = index(network)
    port = rows["router-port/s-0000000001"]
    assert "fd12:3456:789a::1/64" in port.columns["networks"]  # type: ignore[operator]
    assert "fd67:7075:706f:ffff::1/64" in port.columns["networks"]  # type: ignore[operator]
    assert port.columns["ipv6_ra_configs"] == {
        "address_mode": "dhcpv6_stateful",
        "mtu": "1442",
        "send_periodic": "true",
    }
    assert rows["dhcp6/s-0000000001"].columns == {
        "cidr": "fd12:3456:789a::/64",
        "options": {
            "server_id": "0e:00:00:00:00:01",
            "dns_server": "fd67:7075:706f:ffff::2",
            "domain_search": '"net1.gpupool.internal"',
        },
    }


def test_all_references_name_rows_and_nothing_of_ipv6_comes_from_outside(network: Network) -> None:
    rows = index(network)
    for row in rows.values():
        for keys in row.references.values():
            assert keys <= rows.keys()
    drop = rows["ipv6-drop/gpupool-uplink-v-0000000001"]
    assert drop.columns["match"] == 'inport == "gpupool-uplink-v-0000000001" && ip6'
    assert drop.columns["action"] == "drop"
    assert drop.key in rows["router/v-0000000001"].references["policies"]


def test_peered_networks_have_routes_of_both_families(network: Network) -> None:
    rows = index(network)
    assert rows["peering/p-1/requester"].columns["networks"] == (
        "169.254.0.5/30",
        "fd67:7075:706f:2::5/126",
    )
    routes = {
        row.columns["ip_prefix"]: row.columns["nexthop"]
        for row in rows.values()
        if row.table == "Logical_Router_Static_Route"
    }
    assert routes["fd99::/64"] == "fd67:7075:706f:2::6"
    assert routes["10.9.0.0/24"] == "169.254.0.6"
    # Nothing leads outside.
    assert "::/0" not in routes
    # A peer without IPv6 gets no link of IPv6, as its own end has none.
    alone = index(replace(network, peerings=(PEER,)))
    assert alone["peering/p-1/requester"].columns["networks"] == ("169.254.0.5/30",)


def test_a_balancer_has_an_address_of_each_family_with_backends_that_are_probed(
    network: Network,
) -> None:
    rows = index(network)
    vip = f"[{find_balancer_address(3)}]:443"
    row = rows["lb/b-1"]
    assert row.columns["vips"] == {
        "100.126.0.4:443": "10.0.0.10:80,10.0.0.11:80",
        vip: "[fd12:3456:789a::a]:80,[fd12:3456:789a::b]:80",
    }
    probe = "fd12:3456:789a:0:ffff:ffff:ffff:fffe"
    assert row.columns["ip_port_mappings"] == {
        "10.0.0.10": "gpupool-n-0000001000:10.0.0.254",
        "10.0.0.11": "gpupool-n-0000001001:10.0.0.254",
        "[fd12:3456:789a::a]": f"gpupool-n-0000001000:[{probe}]",
        "[fd12:3456:789a::b]": f"gpupool-n-0000001001:[{probe}]",
    }
    assert row.references["health_check"] == {"lb-check/b-1", "lb-check6/b-1"}
    assert rows["lb-check6/b-1"].columns["vip"] == vip


def test_a_proxy_answers_over_both_families(network: Network) -> None:
    address = find_proxy_address(CIDR6, 99)
    subnet = network.subnets[0]
    proxy = ProxyPort("h-1", 3, subnet.key, subnet.cidr[99], (80, 443), address)
    rows = index(replace(network, balancers=(replace(BALANCER, proxy=proxy),)))
    assert rows["lb/b-1"].columns["vips"] == {
        "100.126.0.4:80": "10.0.0.99:80",
        "100.126.0.4:443": "10.0.0.99:443",
        "[fd67:7075:706f:1::3]:80": "[fd12:3456:789a:0:ffff:ffff:0:63]:80",
        "[fd67:7075:706f:1::3]:443": "[fd12:3456:789a:0:ffff:ffff:0:63]:443",
    }
    ours = ("22:00:00:00:00:03 10.0.0.99 fd12:3456:789a:0:ffff:ffff:0:63",)
    assert rows["port/h-1"].columns["addresses"] == ours
    assert rows["port/h-1"].columns["port_security"] == ours


def test_a_proxy_in_a_subnet_without_ipv6_answers_over_ipv4_alone(network: Network) -> None:
    proxy = ProxyPort("h-1", 3, network.subnets[0].key, network.subnets[0].cidr[99], (80,))
    rows = index(replace(network, balancers=(replace(BALANCER, proxy=proxy),)))
    assert rows["lb/b-1"].columns["vips"] == {"100.126.0.4:80": "10.0.0.99:80"}
    assert rows["port/h-1"].columns["addresses"] == ("22:00:00:00:00:03 10.0.0.99",)
    config = read_resolver("port", rows["resolver-port/v-0000000001"].columns["options"])  # type: ignore[arg-type]
    assert config is not None
    assert [str(one) for one in config.addresses["api"]] == ["100.126.0.4"]


def test_names_have_addresses_of_both_families(network: Network) -> None:
    row = index(network)["resolver-port/v-0000000001"]
    assert row.columns["addresses"] == ("2a:00:00:00:00:01 100.126.255.250 fd67:7075:706f:ffff::2",)
    config = read_resolver("port", row.columns["options"])  # type: ignore[arg-type]
    assert config is not None
    assert config.has_ipv6
    assert [str(one) for one in config.addresses["job-1000"]] == [
        "10.0.0.10",
        "fd12:3456:789a::a",
    ]
    assert len(config.addresses["api"]) == 2


def test_groups_take_members_routers_and_rules_of_both_families(network: Network) -> None:
    rows = index(network)
    group = "gpupool_g_web"
    assert rows["acl/g-web/members"].columns["match"] == (
        f"outport == @{group} && (ip4.src == ${group}_ip4 || ip6.src == ${group}_ip6)"
    )
    assert rows["acl/g-web/router"].columns["match"] == (
        f"outport == @{group} && (ip4.src == {{10.0.0.1, 10.0.0.254}} || ip6.src == "
        "{fd12:3456:789a:0:ffff:ffff:ffff:fffe, fd12:3456:789a::1})"
    )
    assert rows["acl/g-web/r"].columns["match"] == f"outport == @{group} && (icmp4 || icmp6)"
    # Of both families, and the only one that refuses.
    assert rows["acl/g-web/others"].columns["match"] == f"outport == @{group} && ip"


def test_a_gateway_that_carries_ipv6_translates_every_subnet_and_the_resolver(
    network: Network,
) -> None:
    gateway = make_gateway(1, UPLINK, has_ipv6=True)
    plain = index(network)
    rows = index(replace(network, gateway=gateway))
    address = "fd67:7075:706f:c612::3"
    assert str(gateway.address6) == address
    assert rows["uplink-route6/v-0000000001"].columns == {
        "ip_prefix": "::/0",
        "nexthop": "fd67:7075:706f:c612::1",
    }
    for key, prefix in (
        ("uplink-nat6/s-0000000001", str(CIDR6)),
        ("resolver-nat6/v-0000000001", "fd67:7075:706f:ffff::/64"),
    ):
        assert rows[key].columns == {
            "type": "snat",
            "external_ip": address,
            "logical_ip": prefix,
        }
    # No tenant reaches the gateway of another one over the cable.
    assert rows["uplink-policy6/v-0000000001"].columns["match"] == (
        "ip6.dst == fd67:7075:706f:c612::/64 && ip6.dst != fd67:7075:706f:c612::1"
    )
    port = rows["uplink-router-port/v-0000000001"].columns["networks"]
    assert port == ("198.18.0.3/16", f"{address}/64")
    assert "ipv6-drop/gpupool-uplink-v-0000000001" in plain
    assert "ipv6-drop/gpupool-uplink-v-0000000001" not in rows
    assert rows.keys() - plain.keys() == {
        "uplink-route6/v-0000000001",
        "uplink-policy6/v-0000000001",
        "uplink-nat6/s-0000000001",
        "resolver-nat6/v-0000000001",
    }
    router = rows["router/v-0000000001"].references
    added = frozenset[str]().union(*router.values())
    assert rows.keys() - plain.keys() <= added
    assert added <= rows.keys()
    for one, wanted in ((plain, False), (rows, True)):
        options = one["resolver-port/v-0000000001"].columns["options"]
        config = read_resolver("port", options)  # type: ignore[arg-type]
        assert config is not None
        assert config.has_gateway6 is config.has_outside6 is wanted


def test_pools_of_one_machine_have_cables_with_prefixes_of_their_own() -> None:
    texts = ("198.18.0.0/16", "198.19.0.0/16", "100.127.0.0/16")
    found = [derive_uplink(IPv4Network(text)) for text in texts]
    assert len(set(found)) == 3
    for one in found:
        assert one.subnet_of(POOL_PREFIX)
        assert not any(one.overlaps(other) for other in (BALANCER_PREFIX, RESOLVER_PREFIX))


def test_a_network_without_ipv6_has_no_row_and_no_column_of_it(network: Network) -> None:
    (subnet,) = network.subnets
    plain = replace(
        network,
        subnets=(replace(subnet, cidr6=None),),
        ports=tuple(replace(port, address6=None) for port in network.ports),
        peerings=(PEER,),
    )
    for row in compile_network(plain):
        text = f"{row.key} {dict(row.columns)} {dict(row.references)}"
        assert "6." not in text.replace("100.126.", "")
        for word in ("ipv6", "ip6", "icmp6", "dhcp6", "dhcpv6", "fd", "check6"):
            assert word not in text, row
