"""Rows in a real northbound database: written, read back, and told from those of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.model import Network
from gpupool.network.northbound import compile_network
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import ChangeSet, plan_changes
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.unit.network.networks import make_network

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    with northbound_server() as made:
        yield made


@pytest.fixture
def database(server: DatabaseServer) -> Iterator[NorthboundDatabase]:
    made = NorthboundDatabase(server.remote, "p")
    yield made
    made.close()


def plan(database: NorthboundDatabase, network: Network) -> ChangeSet:
    return plan_changes(compile_network(network), database.observe(network.key))


def write(database: NorthboundDatabase, *networks: Network) -> None:
    database.apply({network.key: plan(database, network) for network in networks})


def test_what_was_written_is_read_back_and_nothing_is_left_to_do(
    database: NorthboundDatabase,
) -> None:
    networks = [make_network(number, 3) for number in range(1, 6)]
    write(database, *networks)
    assert not any(plan(database, network) for network in networks)
    assert database.list_networks() == [network.key for network in networks]


def test_a_port_that_comes_or_goes_changes_its_own_rows_only(
    database: NorthboundDatabase, server: DatabaseServer
) -> None:
    write(database, make_network(1, 3))
    changes = plan(database, make_network(1, 4))
    assert [row.key for row in changes.created] == ["port/n-0000001003"]
    assert {update.key for update in changes.updated} == {
        "resolver-port/v-0000000001",
        "switch/s-0000000001",
    }
    write(database, make_network(1, 4))
    write(database, make_network(1, 2))
    assert not plan(database, make_network(1, 2))
    names = server.command("--bare", "--columns=name", "list", "Logical_Switch_Port").split()
    assert sorted(names) == [
        "gpupool-gateway-s-0000000001",
        "gpupool-n-0000001000",
        "gpupool-n-0000001001",
        "gpupool-resolver-s-0000000001",
    ]


def test_rows_that_vanish_while_the_server_is_away_are_seen(
    database: NorthboundDatabase, server: DatabaseServer
) -> None:
    networks = [make_network(number, 2) for number in (1, 2)]
    write(database, *networks)
    database.session.refresh()
    database.take_changed()
    server.kill()
    # As a database that comes back from a backup of before.
    gone = {
        "op": "delete",
        "table": "Logical_Router",
        "where": [["name", "==", "gpupool-v-0000000001"]],
    }
    server.change_file("OVN_Northbound", gone)
    server.start()
    assert database.session.wait_for(
        lambda: len(database.session.get_rows("Logical_Router")) == 1, 10
    )
    assert database.take_changed() == {network.key for network in networks}
    assert "router/v-0000000001" in {row.key for row in plan(database, networks[0]).created}
    write(database, *networks)
    assert not any(plan(database, network) for network in networks)
    routers = server.command("--bare", "--columns=name", "list", "Logical_Router").split()
    assert sorted(routers) == ["gpupool-v-0000000001", "gpupool-v-0000000002"]


def test_a_change_whose_answer_was_lost_is_not_made_twice(
    database: NorthboundDatabase, server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = make_network(1, 1)
    write(database, network)
    balancer = LoadBalancer(1, "b-1", "api", "tcp", 80, 8080, ("job-1000",), is_checked=True)
    wanted = replace(network, balancers=(balancer,))
    drive = database.session._drive

    def lose_answer(transaction: Any, deadline: float) -> Any:
        monkeypatch.setattr(database.session, "_drive", drive)
        assert drive(transaction, deadline) == transaction.SUCCESS
        return transaction.TRY_AGAIN

    monkeypatch.setattr(database.session, "_drive", lose_answer)
    write(database, wanted)
    assert server.command("--bare", "--columns=name", "list", "Load_Balancer") == "gpupool-b-1"
    assert (
        len(
            server.command(
                "--bare", "--columns=_uuid", "list", "Load_Balancer_Health_Check"
            ).split()
        )
        == 1
    )
    assert not plan(database, wanted)


def test_rows_of_other_users_of_the_database_stay_as_they_are(
    database: NorthboundDatabase, server: DatabaseServer
) -> None:
    server.command("ls-add", "foreign", "--", "lsp-add", "foreign", "foreign-port")
    network = make_network(1, 1)
    write(database, network)
    server.command("lsp-add", "gpupool-s-0000000001", "guest")
    write(database, make_network(1, 2))
    assert "guest" in server.command("lsp-list", "gpupool-s-0000000001")
    database.apply({network.key: plan_changes((), database.observe(network.key))})
    assert server.command("--bare", "--columns=name", "list", "Logical_Switch") == "foreign"
    assert database.list_networks() == []


def test_two_pools_in_one_database_do_not_see_each_other(
    database: NorthboundDatabase, server: DatabaseServer
) -> None:
    write(database, make_network(1, 1))
    other = NorthboundDatabase(server.remote, "q")
    try:
        assert other.list_networks() == []
    finally:
        other.close()


def test_drift_is_noticed_and_repaired(
    database: NorthboundDatabase, server: DatabaseServer
) -> None:
    network = make_network(1, 2)
    write(database, network)
    assert database.take_changed() == {network.key}
    server.command("lsp-set-addresses", "gpupool-n-0000001000", "0a:00:00:00:00:99 10.0.0.99")
    server.command("lsp-del", "gpupool-n-0000001001")
    rows = len(compile_network(network)) - 1
    database.session.wait_for(lambda: len(database.observe(network.key)) == rows, 5)
    assert database.take_changed() == {network.key}
    write(database, network)
    assert not plan(database, network)


def test_a_database_that_was_killed_is_written_to_again(
    database: NorthboundDatabase, server: DatabaseServer
) -> None:
    write(database, make_network(1, 1))
    server.kill()
    changes = plan(database, make_network(1, 2))
    server.start()
    database.apply({"v-0000000001": changes})
    assert not plan(database, make_network(1, 2))


def test_a_change_that_the_server_refuses_is_said_and_changes_nothing(
    database: NorthboundDatabase,
) -> None:
    write(database, make_network(1, 1))
    (port,) = (row for row in compile_network(make_network(1, 1)) if row.key.startswith("port/"))
    # Two logical switch ports of one name: the schema's index on it.
    (switch,) = (
        row for row in compile_network(make_network(2, 0)) if row.key.startswith("switch/")
    )
    clash = replace(port, key="port/other")
    parent = replace(switch, references={"ports": frozenset({"port/other"})})
    with pytest.raises(NetworkingUnavailable, match="refused a change"):
        database.apply({"v-0000000002": ChangeSet(created=(clash, parent))})
    assert database.list_networks() == ["v-0000000001"]
    assert not plan(database, make_network(1, 1))


def test_no_server_is_said_with_its_address() -> None:
    with pytest.raises(NetworkingUnavailable, match="no database answers"):
        NorthboundDatabase("unix:/nowhere/nb.sock", "p")
