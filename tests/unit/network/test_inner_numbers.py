"""Inner addresses of gateways, floating IPs and peerings: no two that are there at once are equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from gpupool.base.errors import TooManyNetworks
from gpupool.network.floating import reading as floating_reading
from gpupool.network.floating.tables import floating_ips
from gpupool.network.gateways import reading as gateways_reading
from gpupool.network.northbound import compile_network
from gpupool.network.reading import read_networks
from gpupool.network.tables import network_peerings, networks, subnets
from gpupool.wire.network.floating_ips import FloatingIpIn
from gpupool.wire.network.networks import NetworkEngineIn
from tests.unit.network.conftest import NetworkHouse

#: Addresses that there are of each kind, after which the row ids of a pool came round.
GATEWAYS = 32_766
FLOATING = 32_767
LINKS = 16_384


@pytest.fixture
def pool(house: NetworkHouse) -> NetworkHouse:
    house.enable()
    house.tell_engine("ready", northbound="unix:/nowhere", uplink="198.18.0.0/16")
    house.allocations.network_engine.enable(NetworkEngineIn(floating_ips="203.0.113.32/28"))
    return house


def create_gateway(house: NetworkHouse, name: str) -> str:
    house.create_network(name, "10.0.0.0/24")
    gateway = house.allocations.networks.create_gateway(house.admin, name).gateway
    assert gateway is not None
    assert gateway.address is not None
    return gateway.address


def pass_ids(house: NetworkHouse, table: sa.Table, count: int) -> None:
    """Let the last row of a table have an id that is larger by so many."""
    with house.store.write() as write:
        write.connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        last = write.execute(sa.select(sa.func.max(table.c.id))).scalar_one()
        write.execute(table.update().where(table.c.id == last).values(id=last + count))
        if table is networks:
            ours = subnets.update().where(subnets.c.network_id == last)
            write.execute(ours.values(network_id=last + count))


def list_inner(house: NetworkHouse) -> list[str]:
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    return [one.inner for one in sorted(work.floating_ips, key=lambda one: one.address)]


def test_gateways_of_ids_that_came_round_differ(pool: NetworkHouse) -> None:
    first = create_gateway(pool, "a")
    pool.create_network("between", "10.0.0.0/24")
    pass_ids(pool, networks, GATEWAYS - 2)
    assert create_gateway(pool, "b") != first


def test_a_gateway_has_the_lowest_free_address_and_keeps_it(pool: NetworkHouse) -> None:
    found = {name: create_gateway(pool, name) for name in ("a", "b", "c")}
    assert list(found.values()) == ["198.18.0.3", "198.18.0.4", "198.18.0.5"]
    rooms = pool.allocations.networks
    rooms.delete_gateway(pool.admin, "a")
    rooms.delete_network(pool.admin, "b")
    assert create_gateway(pool, "d") == found["a"]
    again = rooms.create_gateway(pool.admin, "a").gateway
    assert again is not None
    assert again.address == found["b"]
    kept = rooms.get_network(pool.admin, "c").gateway
    assert kept is not None
    assert kept.address == found["c"]


def test_the_mac_of_a_gateway_goes_with_its_address(pool: NetworkHouse) -> None:
    """The machine remembers which MAC address an address has."""
    found = list[tuple[object, ...]]()
    for name in ("a", "b"):
        create_gateway(pool, name)
        key = pool.allocations.networks.get_network(pool.admin, name).id
        with pool.store.read() as connection:
            rows = compile_network(read_networks(connection, [key])[key])
        port = next(row for row in rows if row.key == f"uplink-router-port/{key}")
        found.append((port.columns["mac"], port.columns["networks"]))
        pool.allocations.networks.delete_gateway(pool.admin, name)
    assert found[0] == found[1]


def test_floating_ips_of_ids_that_came_round_differ(pool: NetworkHouse) -> None:
    create_gateway(pool, "a")
    rooms = pool.allocations.floating_ips
    rooms.create_floating(pool.admin, "a", FloatingIpIn(target="one"))
    rooms.create_floating(pool.admin, "a", FloatingIpIn(target="two"))
    pass_ids(pool, floating_ips, FLOATING - 2)
    rooms.create_floating(pool.admin, "a", FloatingIpIn(target="three"))
    inner = list_inner(pool)
    assert inner == ["198.18.128.1", "198.18.128.2", "198.18.128.3"]
    rooms.delete_floating(pool.admin, "a", "two")
    rooms.create_floating(pool.admin, "a", FloatingIpIn(target="four"))
    assert list_inner(pool) == inner


def test_links_of_ids_that_came_round_differ_on_each_router(pool: NetworkHouse) -> None:
    """Packets for one peer would go to the other one."""
    hub = pool.create_network("hub", "10.0.0.0/24")
    peerings = pool.allocations.network_peerings
    for number, name in enumerate("abc", start=1):
        pool.create_network(name, f"10.{number}.0.0/24")
        asked = peerings.request_peering(pool.admin, name, hub.id)
        if name == "b":
            pass_ids(pool, network_peerings, LINKS - 2)
        peerings.accept_peering(pool.admin, "hub", asked.id)
    with pool.store.read() as connection:
        ends = read_networks(connection, [hub.id])[hub.id].peerings
    assert len({end.address for end in ends}) == 3


@pytest.mark.parametrize("what", ["gateways", "floating IPs"])
def test_what_no_address_is_left_for_is_refused(
    pool: NetworkHouse, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    create_gateway(pool, "a")
    pool.create_network("b", "10.0.0.0/24")
    floating = pool.allocations.floating_ips
    floating.create_floating(pool.admin, "a", FloatingIpIn(target="one"))
    monkeypatch.setattr(gateways_reading, "GATEWAY_NUMBERS", range(1, 2))
    monkeypatch.setattr(floating_reading, "INNER_NUMBERS", range(1, 2))
    asks: dict[str, Callable[[], object]] = {
        "gateways": lambda: pool.allocations.networks.create_gateway(pool.admin, "b"),
        "floating IPs": lambda: floating.create_floating(
            pool.admin, "a", FloatingIpIn(target="two")
        ),
    }
    with pytest.raises(TooManyNetworks, match=f"the pool has 1 {what}"):
        asks[what]()
