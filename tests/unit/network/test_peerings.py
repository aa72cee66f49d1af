"""Peerings: consent of both owners, no word about foreign networks, routes on both sides."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    NameTaken,
    OverlappingSubnets,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.model.tenant import Principal, UserRole
from gpupool.network import peerings as module
from gpupool.network.northbound import compile_network
from gpupool.network.reading import read_networks
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.network.networks import NetworkIn, NetworkOut, SubnetIn
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def stranger(house: NetworkHouse) -> Principal:
    with house.store.write() as write:
        tenant = insert_tenant(write, "lab")
    return Principal(2, "ann", tenant, "lab", UserRole.TENANT_ADMIN)


def create_theirs(house: NetworkHouse, stranger: Principal, cidr: str) -> NetworkOut:
    body = NetworkIn(name="theirs", subnets=[SubnetIn(cidr=cidr)])
    return house.allocations.networks.create_network(stranger, body)


def list_routes(house: NetworkHouse, network: NetworkOut) -> list[tuple[object, object]]:
    with house.store.read() as connection:
        rows = compile_network(read_networks(connection, [network.id])[network.id])
    routes = [row for row in rows if row.table == "Logical_Router_Static_Route"]
    return [(row.columns["ip_prefix"], row.columns["nexthop"]) for row in routes]


def test_packets_pass_from_acceptance_to_revocation_on_both_sides(
    house: NetworkHouse, stranger: Principal
) -> None:
    ours = house.create_network("ours", "10.0.0.0/24")
    theirs = create_theirs(house, stranger, "10.1.0.0/24")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", theirs.id)
    assert (asked.state, asked.other_name) == ("requested", None)
    assert list_routes(house, ours) == list_routes(house, theirs) == []
    (seen,) = peerings.list_peerings(stranger, "theirs")
    assert (seen.other_tenant, seen.other_name) == ("default", "ours")
    assert seen.other_prefixes == ["10.0.0.0/24"]
    with pytest.raises(WrongState):
        peerings.accept_peering(house.admin, "ours", asked.id)
    peerings.accept_peering(stranger, "theirs", asked.id)
    assert peerings.accept_peering(stranger, "theirs", asked.id).state == "accepted"
    ((prefix, hop),) = list_routes(house, ours)
    ((back, hop_back),) = list_routes(house, theirs)
    assert (prefix, back) == ("10.1.0.0/24", "10.0.0.0/24")
    assert hop != hop_back
    peerings.revoke_peering(house.admin, "ours", asked.id)
    assert list_routes(house, ours) == list_routes(house, theirs) == []
    assert peerings.list_peerings(stranger, "theirs") == []


def test_two_ends_of_a_link_name_each_other(house: NetworkHouse, stranger: Principal) -> None:
    ours = house.create_network("ours", "10.0.0.0/24")
    theirs = create_theirs(house, stranger, "10.1.0.0/24")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", theirs.id)
    peerings.accept_peering(stranger, "theirs", asked.id)
    with house.store.read() as connection:
        both = read_networks(connection)
    ports = {}
    keys = list[str]()
    for network in (ours, theirs):
        rows = compile_network(both[network.id])
        keys += [row.key for row in rows]
        for row in rows:
            if row.columns.get("peer"):
                ports[str(row.columns["name"])] = row.columns["peer"]
    assert len(ports) == 2
    assert all(ports[peer[0]] == (name,) for name, peer in ports.items() if isinstance(peer, tuple))
    assert len(set(keys)) == len(keys)


def test_a_request_does_not_tell_whether_the_network_exists(
    house: NetworkHouse, stranger: Principal
) -> None:
    house.create_network("ours", "10.0.0.0/24")
    theirs = create_theirs(house, stranger, "10.0.0.0/24")
    peerings = house.allocations.network_peerings
    real = peerings.request_peering(house.admin, "ours", theirs.id)
    none = peerings.request_peering(house.admin, "ours", "v-0000000000")
    hidden = {"id", "other", "created_ns"}
    assert real.model_dump(exclude=hidden) == none.model_dump(exclude=hidden)


def test_networks_with_common_addresses_are_refused_with_the_clashing_prefixes(
    house: NetworkHouse, stranger: Principal
) -> None:
    house.create_network("ours", "10.0.0.0/24", "10.9.0.0/24")
    theirs = create_theirs(house, stranger, "10.0.0.128/25")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", theirs.id)
    with pytest.raises(OverlappingSubnets) as caught:
        peerings.accept_peering(stranger, "theirs", asked.id)
    assert caught.value.details["clashing"] == ["10.0.0.128/25 and 10.0.0.0/24"]


def test_a_subnet_that_a_peered_network_has_is_refused(
    house: NetworkHouse, stranger: Principal
) -> None:
    house.create_network("ours", "10.0.0.0/24")
    theirs = create_theirs(house, stranger, "10.1.0.0/24")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", theirs.id)
    peerings.accept_peering(stranger, "theirs", asked.id)
    networks = house.allocations.networks
    with pytest.raises(OverlappingSubnets, match="of a peered network"):
        networks.create_subnet(house.admin, "ours", SubnetIn(name="more", cidr="10.1.0.0/28"))
    networks.create_subnet(house.admin, "ours", SubnetIn(name="more", cidr="10.2.0.0/24"))


def test_a_peering_is_asked_for_once_and_ends_with_its_network(
    house: NetworkHouse, stranger: Principal
) -> None:
    ours = house.create_network("ours", "10.0.0.0/24")
    theirs = create_theirs(house, stranger, "10.1.0.0/24")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", theirs.id)
    with pytest.raises(NameTaken):
        peerings.request_peering(house.admin, "ours", theirs.id)
    with pytest.raises(NameTaken):
        peerings.request_peering(stranger, "theirs", ours.id)
    for wrong in ("ours", ours.id, "not an id"):
        with pytest.raises(UnknownNetwork):
            peerings.request_peering(house.admin, "ours", wrong)
    peerings.accept_peering(stranger, "theirs", asked.id)
    house.allocations.networks.delete_network(stranger, "theirs")
    assert peerings.list_peerings(house.admin, "ours") == []
    assert list_routes(house, ours) == []


def create_two(house: NetworkHouse, stranger: Principal, *prefixes: str) -> list[NetworkOut]:
    """Create the networks `near` and `far`, with a subnet each."""
    networks = house.allocations.networks
    made = list[NetworkOut]()
    for name, cidr in zip(("near", "far"), prefixes, strict=True):
        body = NetworkIn(name=name, subnets=[SubnetIn(cidr=cidr, cidr6="auto")])
        made.append(networks.create_network(stranger, body))
    return made


def test_a_network_gets_no_second_way_to_addresses_by_another_peering(
    house: NetworkHouse, stranger: Principal
) -> None:
    ours = house.create_network("ours", "10.0.0.0/24")
    _, far = create_two(house, stranger, "10.1.0.0/24", "10.1.0.0/25")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(stranger, "near", ours.id)
    peerings.accept_peering(house.admin, "ours", asked.id)
    # The owner who accepts knows the prefixes of both others.
    asked = peerings.request_peering(stranger, "far", ours.id)
    with pytest.raises(OverlappingSubnets) as caught:
        peerings.accept_peering(house.admin, "ours", asked.id)
    assert caught.value.details["clashing"] == ["10.1.0.0/25 and 10.1.0.0/24"]
    peerings.revoke_peering(stranger, "far", asked.id)
    # The owner of the other network does not.
    asked = peerings.request_peering(house.admin, "ours", far.id)
    with pytest.raises(OverlappingSubnets) as caught:
        peerings.accept_peering(stranger, "far", asked.id)
    assert caught.value.details["clashing"] == [
        "10.1.0.0/25 and a network that the other one is peered with"
    ]
    assert [prefix for prefix, _ in list_routes(house, ours)] == ["10.1.0.0/24"]


def test_a_later_subnet_takes_no_packets_from_another_peer(
    house: NetworkHouse, stranger: Principal
) -> None:
    networks = house.allocations.networks
    body = NetworkIn(name="ours", subnets=[SubnetIn(cidr="10.0.0.0/24", cidr6="auto")])
    ours = networks.create_network(house.admin, body)
    peerings = house.allocations.network_peerings
    near, far = create_two(house, stranger, "10.1.0.0/24", "10.2.0.0/24")
    for one in (near, far):
        asked = peerings.request_peering(stranger, one.name, ours.id)
        peerings.accept_peering(house.admin, "ours", asked.id)
    before = list_routes(house, ours)
    taken6 = near.subnets[0].cidr6
    for wanted in (
        SubnetIn(name="more", cidr="10.1.0.0/28"),
        SubnetIn(name="more", cidr="10.3.0.0/24", cidr6=taken6),
    ):
        with pytest.raises(OverlappingSubnets, match="a peered network is peered with"):
            networks.create_subnet(stranger, "far", wanted)
    assert list_routes(house, ours) == before
    networks.create_subnet(stranger, "far", SubnetIn(name="more", cidr="10.3.0.0/24"))


def test_a_network_asks_for_so_many_peerings_and_no_more(
    house: NetworkHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PEERINGS", 1)
    house.create_network("ours", "10.0.0.0/24")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", "v-aaaaaaaaaa")
    with pytest.raises(TooManyNetworks, match="asked for 1 peerings; 1 is the most"):
        peerings.request_peering(house.admin, "ours", "v-bbbbbbbbbb")
    peerings.revoke_peering(house.admin, "ours", asked.id)
    peerings.request_peering(house.admin, "ours", "v-bbbbbbbbbb")
