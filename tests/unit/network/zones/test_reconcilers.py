"""Each zone's networks reach its own database, and no other's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.network.zones.reconcilers import ZoneReconcilers
from gpupool.wire.network.networks import NetworkEngineIn, NetworkIn, SubnetIn
from gpupool.wire.network.zones import NetworkZoneReport
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.support.supervised import until
from tests.unit.network.conftest import NetworkHouse

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())


@pytest.fixture
def servers() -> Iterator[list[DatabaseServer]]:
    with northbound_server() as first, northbound_server() as second:
        yield [first, second]


@pytest.fixture
def reconcilers(house: NetworkHouse) -> Iterator[ZoneReconcilers]:
    made = ZoneReconcilers(house.store, house.allocations.network_engine.read_northbound)
    made.start()
    yield made
    made.close()
    made.join(5)


def create(house: NetworkHouse, name: str, prefix: str = "10.0.0.0/24") -> str:
    body = NetworkIn(name=name, subnets=[SubnetIn(cidr=prefix)])
    return house.allocations.networks.create_network(house.admin, body).id


def report(house: NetworkHouse, servers: list[DatabaseServer]) -> None:
    second = NetworkZoneReport(number=1, state="ready", northbound=servers[1].remote)
    house.tell_engine("ready", northbound=servers[0].remote, zones=[second])


def list_routers(server: DatabaseServer) -> set[str]:
    found = server.command("--bare", "--columns=name", "list", "Logical_Router").split()
    return {name.removeprefix("gpupool-") for name in found}


def test_networks_are_written_to_the_database_of_their_zone_alone(
    house: NetworkHouse, servers: list[DatabaseServer], reconcilers: ZoneReconcilers
) -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(zone_size=1))
    first = create(house, "a")
    second = create(house, "b")
    report(house, servers)
    until(lambda: [list_routers(one) for one in servers] == [{first}, {second}])
    house.submit(name="one", network="b")
    until(lambda: "10.0.0.2" in servers[1].command("list", "Logical_Switch_Port"))
    assert "10.0.0.2" not in servers[0].command("list", "Logical_Switch_Port")
    house.finish("one")
    house.allocations.networks.delete_network(house.admin, "a")
    until(lambda: [list_routers(one) for one in servers] == [set(), {second}])


def test_a_network_that_moves_leaves_the_database_that_it_was_in(
    house: NetworkHouse, servers: list[DatabaseServer], reconcilers: ZoneReconcilers
) -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(zone_size=1))
    first = create(house, "a")
    second = create(house, "b", "10.1.0.0/24")
    report(house, servers)
    until(lambda: [list_routers(one) for one in servers] == [{first}, {second}])
    house.submit(name="one", network="b")
    peerings = house.allocations.network_peerings
    made = peerings.request_peering(house.admin, "b", first)
    peerings.accept_peering(house.admin, "a", made.id)
    until(lambda: [list_routers(one) for one in servers] == [set(), {first, second}])
