"""The reconciler against a real northbound database: what a commit changes reaches it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.network.reconciler import NetworkReconciler
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.support.supervised import until
from tests.unit.network.conftest import NetworkHouse

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    with northbound_server() as made:
        yield made


@pytest.fixture
def reconciler(house: NetworkHouse, server: DatabaseServer) -> Iterator[NetworkReconciler]:
    made = start_reconciler(house)
    yield made
    made.close()
    made.join(30)


def start_reconciler(house: NetworkHouse) -> NetworkReconciler:
    made = NetworkReconciler(house.store, house.allocations.network_engine.read_northbound)
    made.start()
    return made


def count_rows(server: DatabaseServer, table: str) -> int:
    return len(server.command("--bare", "--columns=_uuid", "list", table).split())


def test_networks_jobs_and_deletions_reach_the_engine(
    house: NetworkHouse, server: DatabaseServer, reconciler: NetworkReconciler
) -> None:
    house.create_network("a", "10.0.0.0/24")
    house.allocations.network_engine.enable()
    house.tell_engine("ready", northbound=server.remote)
    until(lambda: count_rows(server, "Logical_Router") == 1)
    house.create_network("b", "10.0.0.0/24", "10.0.1.0/24")
    until(lambda: count_rows(server, "Logical_Switch") == 3)
    house.submit(name="one", network="b")
    until(lambda: "10.0.0.2" in server.command("list", "Logical_Switch_Port"))
    house.finish("one")
    until(lambda: "10.0.0.2" not in server.command("list", "Logical_Switch_Port"))
    house.allocations.networks.delete_network(house.admin, "b")
    until(lambda: count_rows(server, "Logical_Switch") == 1)


def test_a_new_server_changes_nothing_on_the_wire_and_repairs_what_drifted(
    house: NetworkHouse, server: DatabaseServer, reconciler: NetworkReconciler
) -> None:
    house.create_network("a", "10.0.0.0/24")
    house.allocations.network_engine.enable()
    house.tell_engine("ready", northbound=server.remote)
    until(lambda: count_rows(server, "DHCP_Options") == 1)
    before = server.command("list", "Logical_Switch")
    reconciler.close()
    reconciler.join(30)
    server.command("--all", "destroy", "DHCP_Options")
    house.restart()
    second = start_reconciler(house)
    try:
        until(lambda: count_rows(server, "DHCP_Options") == 1)
        assert server.command("list", "Logical_Switch") == before
        # A row that another client removed while we look on comes back as well.
        server.command("--all", "destroy", "DHCP_Options")
        until(lambda: count_rows(server, "DHCP_Options") == 1)
    finally:
        second.close()
        second.join(30)


def test_a_network_that_the_database_refuses_keeps_no_other_one_waiting(
    house: NetworkHouse, server: DatabaseServer, reconciler: NetworkReconciler
) -> None:
    subnet = house.create_network("refused", "10.0.0.0/24").subnets[0].id
    # Names of router ports are unique, and another user of the database has this one.
    port = f"gpupool-router-{subnet}"
    foreign = ("lrp-add", "foreign", port, "02:00:00:00:00:01", "192.0.2.1/24")
    server.command("lr-add", "foreign", "--", *foreign)
    house.create_network("beside", "10.0.0.0/24")
    house.allocations.network_engine.enable()
    house.tell_engine("ready", northbound=server.remote)
    until(lambda: count_rows(server, "Logical_Switch") == 1)
    house.create_network("later", "10.0.0.0/24")
    until(lambda: count_rows(server, "Logical_Switch") == 2)
    assert f"gpupool-{subnet}" not in server.command("list", "Logical_Switch")
    server.command("lr-del", "foreign")
    house.create_network("last", "10.0.0.0/24")
    until(lambda: count_rows(server, "Logical_Switch") == 4)
