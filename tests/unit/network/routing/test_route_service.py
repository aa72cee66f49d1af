"""Routes of tenants: accepted, shown in the whole table, and refused with the reason."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadAddress,
    GpupoolError,
    NameTaken,
    OverlappingSubnets,
    StillInUse,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.network.routing import service as module
from gpupool.network.routing.service import RouteService
from gpupool.wire.network.networks import SubnetIn
from gpupool.wire.network.routes import RouteIn
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def routes(house: NetworkHouse) -> RouteService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24", "10.0.1.0/24")
    return house.allocations.network_routes


def list_table(house: NetworkHouse, routes: RouteService) -> list[tuple[object, ...]]:
    return [
        (one.prefix, one.kind, one.via, one.subnet, one.is_active)
        for one in routes.list_routes(house.admin, "lab")
    ]


def test_the_table_has_routes_of_every_kind(house: NetworkHouse, routes: RouteService) -> None:
    made = routes.create_route(
        house.admin,
        "lab",
        RouteIn(prefix="172.16.0.0/12", via="10.0.0.9", forwards=["10.0.1.0/24"]),
    )
    assert made.reason == "no job has 10.0.0.9 now: packets are lost"
    assert made.forwards == ["10.0.1.0/24"]
    routes.create_route(house.admin, "lab", RouteIn(prefix="0.0.0.0/0", discard=True))
    routes.create_route(
        house.admin, "lab", RouteIn(prefix="0.0.0.0/0", via="10.0.0.9", subnet="s1")
    )
    house.allocations.networks.create_gateway(house.admin, "lab")
    house.tell_engine("ready", northbound="unix:/nowhere", uplink="198.18.0.0/16")
    assert list_table(house, routes) == [
        ("0.0.0.0/0", "static", None, None, True),
        ("0.0.0.0/0", "gateway", "198.18.0.1", None, False),
        ("0.0.0.0/0", "static", "10.0.0.9", "s1", True),
        ("10.0.0.0/24", "connected", None, None, True),
        ("10.0.1.0/24", "connected", None, None, True),
        ("172.16.0.0/12", "static", "10.0.0.9", None, True),
    ]
    shown = routes.list_routes(house.admin, "lab")
    assert [one.is_discarding for one in shown] == [True, False, False, False, False, False]
    assert shown[1].reason == f"static {shown[0].id} has the same prefix"
    routes.delete_route(house.admin, "lab", shown[0].id)
    assert list_table(house, routes)[0] == ("0.0.0.0/0", "gateway", "198.18.0.1", None, True)


@pytest.mark.parametrize(
    ("body", "error", "match"),
    [
        ({"prefix": "10.0.0.128/25", "via": "10.0.1.9"}, OverlappingSubnets, "of subnet 10.0.0.0"),
        ({"prefix": "10.0.0.0/24", "discard": True}, OverlappingSubnets, "of subnet 10.0.0.0/24"),
        ({"prefix": "172.16.0.1/12", "discard": True}, BadAddress, "inside a prefix"),
        ({"prefix": "127.0.0.0/8", "discard": True}, BadAddress, "cannot be routed"),
        ({"prefix": "100.126.3.0/24", "discard": True}, BadAddress, "load balancers"),
        ({"prefix": "172.16.0.0/12"}, WrongState, "has a next hop, or discards"),
        ({"prefix": "172.16.0.0/12", "via": "10.0.0.9", "discard": True}, WrongState, "next hop"),
        ({"prefix": "172.16.0.0/12", "via": "10.9.0.9"}, BadAddress, "outside of the network's"),
        ({"prefix": "172.16.0.0/12", "via": "10.0.0.1"}, BadAddress, "is the router's"),
        ({"prefix": "172.16.0.0/12", "via": "10.0.0.255"}, BadAddress, "the broadcast address"),
        ({"prefix": "172.16.0.0/12", "via": "router"}, BadAddress, "not an IPv4 address"),
        ({"prefix": "172.16.0.0/12", "discard": True, "subnet": "s7"}, UnknownNetwork, "no subnet"),
        (
            {"prefix": "172.16.0.0/12", "discard": True, "forwards": ["10.0.0.0/8"]},
            WrongState,
            "have no next hop",
        ),
    ],
)
def test_what_is_refused_says_why(
    house: NetworkHouse,
    routes: RouteService,
    body: dict[str, object],
    error: type[GpupoolError],
    match: str,
) -> None:
    with pytest.raises(error, match=match):
        routes.create_route(house.admin, "lab", RouteIn.model_validate(body))
    assert len(list_table(house, routes)) == 2


def test_a_prefix_has_one_route_for_each_scope(house: NetworkHouse, routes: RouteService) -> None:
    body = RouteIn(prefix="172.16.0.0/12", discard=True)
    made = routes.create_route(house.admin, "lab", body)
    with pytest.raises(NameTaken, match=f"a route already: static {made.id}"):
        routes.create_route(house.admin, "lab", body)
    scoped = body.model_copy(update={"subnet": "s0"})
    routes.create_route(house.admin, "lab", scoped)
    with pytest.raises(NameTaken, match=r"172\.16\.0\.0/12 has a route"):
        routes.create_route(house.admin, "lab", scoped)
    routes.delete_route(house.admin, "lab", made.id)
    with pytest.raises(UnknownNetwork, match="no static route"):
        routes.delete_route(house.admin, "lab", made.id)


def test_a_network_has_no_more_routes_than_it_may(
    house: NetworkHouse, routes: RouteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROUTES", 1)
    routes.create_route(house.admin, "lab", RouteIn(prefix="172.16.0.0/12", discard=True))
    with pytest.raises(TooManyNetworks, match="has 1 routes; 1 is the most"):
        routes.create_route(house.admin, "lab", RouteIn(prefix="172.32.0.0/12", discard=True))


def test_subnets_and_routes_keep_out_of_each_other(
    house: NetworkHouse, routes: RouteService
) -> None:
    networks = house.allocations.networks
    made = routes.create_route(house.admin, "lab", RouteIn(prefix="10.0.9.0/24", via="10.0.1.9"))
    with pytest.raises(OverlappingSubnets, match=r"routes lead to addresses of 10\.0\.8\.0/23"):
        networks.create_subnet(house.admin, "lab", SubnetIn(name="s2", cidr="10.0.8.0/23"))
    with pytest.raises(StillInUse, match=r"routes of subnet s1 or through it: 10\.0\.9\.0/24"):
        networks.delete_subnet(house.admin, "lab", "s1")
    routes.delete_route(house.admin, "lab", made.id)
    networks.delete_subnet(house.admin, "lab", "s1")
    routes.create_route(house.admin, "lab", RouteIn(prefix="10.0.9.0/24", discard=True))
    # With the network all of its routes go.
    networks.delete_network(house.admin, "lab")


@pytest.mark.parametrize(
    ("body", "error", "match"),
    [
        ({"prefix": "fd12::/80", "discard": True}, OverlappingSubnets, "of subnet fd12::/64"),
        ({"prefix": "fd20::1/64", "discard": True}, BadAddress, "inside a prefix"),
        ({"prefix": "ff00::/8", "discard": True}, BadAddress, "cannot be routed"),
        ({"prefix": "fd67:7075:706f:1::/64", "discard": True}, BadAddress, "name servers"),
        ({"prefix": "fd20::/64", "via": "10.2.0.9"}, BadAddress, "not an IPv6 address"),
        ({"prefix": "172.16.0.0/12", "via": "fd12::9"}, BadAddress, "not an IPv4 address"),
        ({"prefix": "fd20::/64", "via": "fd13::9"}, BadAddress, "outside of the network's"),
        ({"prefix": "fd20::/64", "via": "fd12::1"}, BadAddress, "is the router's"),
        (
            {"prefix": "fd20::/64", "via": "fd12::9", "forwards": ["10.0.0.0/8"]},
            BadAddress,
            "carries IPv6, and 10.0.0.0/8 is of IPv4",
        ),
    ],
)
def test_what_is_refused_of_ipv6_says_why(
    house: NetworkHouse,
    routes: RouteService,
    body: dict[str, object],
    error: type[GpupoolError],
    match: str,
) -> None:
    with pytest.raises(BadAddress, match="no subnet of network lab has IPv6"):
        routes.create_route(house.admin, "lab", RouteIn(prefix="::/0", discard=True))
    subnet = SubnetIn(name="six", cidr="10.2.0.0/24", cidr6="fd12::/64")
    house.allocations.networks.create_subnet(house.admin, "lab", subnet)
    with pytest.raises(error, match=match):
        routes.create_route(house.admin, "lab", RouteIn.model_validate(body))
    assert len(list_table(house, routes)) == 4


def test_routes_of_ipv6_keep_out_of_subnets_and_give_jobs_a_way_outside(
    house: NetworkHouse, routes: RouteService
) -> None:
    networks = house.allocations.networks
    subnet = SubnetIn(name="six", cidr="10.2.0.0/24", cidr6="fd12::/64")
    networks.create_subnet(house.admin, "lab", subnet)
    routes.create_route(house.admin, "lab", RouteIn(prefix="fd20::/48", via="fd12::9"))
    other = SubnetIn(name="more", cidr="10.3.0.0/24", cidr6="fd20::/64")
    networks.create_subnet(house.admin, "lab", other)
    made = routes.create_route(house.admin, "lab", RouteIn(prefix="fd30::/64", discard=True))
    clash = SubnetIn(name="clash", cidr="10.4.0.0/24", cidr6="fd30::/64")
    with pytest.raises(OverlappingSubnets, match="routes lead to addresses of fd30::/64"):
        networks.create_subnet(house.admin, "lab", clash)
    routes.delete_route(house.admin, "lab", made.id)
    with pytest.raises(StillInUse, match="routes of subnet six or through it: fd20::/48"):
        networks.delete_subnet(house.admin, "lab", "six")

    def has_outside6(name: str) -> bool:
        network = {"name": "lab", "address6": "fd12::9" if name == "hop" else "fd12::8"}
        job = house.submit(100, 1, name=name, network=network)
        (found,) = [item.network for item in house.work() if item.job == job.id]
        assert found is not None
        return found.has_outside6

    # All unique local addresses have a route anyway.
    assert not has_outside6("before")
    routes.create_route(house.admin, "lab", RouteIn(prefix="2001:db8::/32", via="fd12::9"))
    assert has_outside6("hop")
    (shown,) = [one for one in routes.list_routes(house.admin, "lab") if one.via == "fd12::9"][1:]
    assert (shown.prefix, shown.reason) == ("fd20::/48", "")
