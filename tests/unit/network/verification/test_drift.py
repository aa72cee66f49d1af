"""Rows that are not as wanted are named, on a real northbound database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.network.northbound import compile_network
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import plan_changes
from gpupool.network.verification.drift import check_drift
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.unit.network.networks import make_network

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())
NETWORK = make_network(1, 2)


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    with northbound_server() as made:
        database = NorthboundDatabase(made.remote, "pool")
        rows = compile_network(NETWORK)
        database.apply({NETWORK.key: plan_changes(rows, database.observe(NETWORK.key))})
        database.close()
        yield made


def test_what_is_as_wanted_has_no_drift(server: DatabaseServer) -> None:
    check = check_drift({server.remote: [NETWORK]}, "pool")
    rows = len(compile_network(NETWORK))
    assert (check.kept, check.measured) == (True, f"{rows} rows compared, 0 different")


def test_changed_and_missing_rows_are_named(server: DatabaseServer) -> None:
    port = NETWORK.ports[0].key
    server.command("lsp-set-port-security", f"gpupool-{port}")
    server.command("dhcp-options-del", server.command("dhcp-options-list"))
    check = check_drift({server.remote: [NETWORK]}, "pool")
    assert check.kept is False
    assert f"port/{port}" in check.reason
    assert f"dhcp/{NETWORK.subnets[0].key}" in check.reason
    assert check_drift({server.remote: [make_network(2, 1)]}, "pool").kept is False
