"""What a network becomes in OVN: whole, in itself, and with the addresses that are its own."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

from gpupool.network.model import (
    make_dns_name,
    make_gateway,
    make_mac,
    make_port_mac,
    make_proxy_mac,
    make_router_mac,
)
from gpupool.network.northbound import compile_network, name_port
from gpupool.network.resolver_rows import make_resolver_mac
from gpupool.network.rows import NorthboundRow
from tests.unit.network.networks import make_network


def find(rows: tuple[NorthboundRow, ...], kind: str) -> list[NorthboundRow]:
    return [row for row in rows if row.key.startswith(f"{kind}/")]


def test_every_reference_names_a_row_of_the_same_network() -> None:
    rows = compile_network(make_network(1, 3))
    keys = {row.key for row in rows}
    assert len(keys) == len(rows)
    for row in rows:
        for references in row.references.values():
            assert references <= keys


def test_two_networks_with_one_prefix_share_no_row_name_or_mac() -> None:
    one = compile_network(make_network(1, 3))
    two = compile_network(make_network(2, 3))
    assert not {row.key for row in one} & {row.key for row in two}
    for kind in ("port", "router-port", "switch", "router"):
        names = [str(row.columns["name"]) for row in (*find(one, kind), *find(two, kind))]
        assert len(set(names)) == len(names)
    addresses = [row.columns["addresses"] for row in (*find(one, "port"), *find(two, "port"))]
    assert len(set(addresses)) == 6


def test_a_port_may_send_from_its_own_addresses_only() -> None:
    network = make_network(7, 1)
    (row,) = find(compile_network(network), "port")
    (port,) = network.ports
    assert row.columns["name"] == name_port(port.key)
    assert (
        row.columns["port_security"] == row.columns["addresses"] == ("0a:00:00:00:1b:58 10.0.0.10",)
    )


def test_only_guests_ask_for_their_addresses() -> None:
    network = make_network(7, 2)
    job, other = network.ports
    guest = replace(other, named_mac="06:00:00:00:00:01")
    rows = find(compile_network(replace(network, ports=(job, guest))), "port")
    options = {row.key: row.references["dhcpv4_options"] for row in rows}
    assert options[f"port/{guest.key}"] == {f"dhcp/{network.subnets[0].key}"}
    # Empty, and not left out: what an earlier version wrote goes.
    assert options[f"port/{job.key}"] == frozenset()


def test_dns_names_of_members_are_host_names() -> None:
    assert make_dns_name("Train_x.y") == "train-x-y"
    assert make_dns_name("train.12", "train") == "train-12.train"
    assert make_dns_name("a.b.0", "a.b") == "a-b-0.a-b"


def test_a_gateway_adds_nat_for_each_subnet_and_a_default_route() -> None:
    plain = make_network(3, 2)
    network = replace(plain, id=3, gateway=make_gateway(3, IPv4Network("198.18.0.0/16")))
    rows = compile_network(network)
    keys = {row.key for row in rows}
    assert len(keys) == len(rows)
    assert all(keys >= refs for row in rows for refs in row.references.values())
    (names, nat) = (row for row in rows if row.table == "NAT")
    assert names.columns["logical_ip"] == "100.126.255.248/29"
    assert nat.columns == {
        "type": "snat",
        "external_ip": "198.18.0.5",
        "logical_ip": "10.0.0.0/24",
    }
    (route,) = (row for row in rows if row.table == "Logical_Router_Static_Route")
    assert route.columns == {"ip_prefix": "0.0.0.0/0", "nexthop": "198.18.0.1"}
    assert {row.key for row in compile_network(plain)} < keys


def test_a_gateway_drops_what_is_for_other_gateways_of_the_uplink() -> None:
    network = replace(make_network(3, 1), gateway=make_gateway(3, IPv4Network("198.18.0.0/16")))
    rows = compile_network(network)
    (policy,) = (row for row in rows if row.table == "Logical_Router_Policy")
    # All that is on the cable but the machine, which filters by its own rules.
    assert policy.columns["match"] == "ip4.dst == 198.18.0.0/16 && ip4.dst != 198.18.0.1"
    assert policy.columns["action"] == "drop"
    (router,) = (row for row in rows if row.table == "Logical_Router")
    assert router.references["policies"] == {policy.key}


def test_networks_of_an_uplink_have_addresses_of_their_own() -> None:
    uplink = IPv4Network("198.18.0.0/16")
    found = [make_gateway(number, uplink).address for number in range(1, 2000)]
    assert len(set(found)) == len(found)
    assert uplink[1] not in found


def test_owners_of_different_kinds_with_one_number_have_different_macs() -> None:
    (subnet,) = make_network(1, 0).subnets
    owners = {make_port_mac(1), make_proxy_mac(1), make_resolver_mac(1), make_router_mac(subnet)}
    # Of the uplink, and of the two ends of a peering.
    owners |= {make_mac(first, 1) for first in (0x12, 0x1A, 0x1E)}
    assert subnet.id == 1
    assert len(owners) == 7
