"""What decides planes, as it is read from either database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.network.planes.model import Plane
from gpupool.network.planes.node_gate import NodeGate, NodeGrant, read_gate, refuse_closed_nodes
from gpupool.network.planes.reading import GUESTS, is_used, read_facts, read_inventory
from gpupool.network.planes.service import PlaneService
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.tenancy.service import TenancyService
from tests.support.empty_databases import prepare_copy
from tests.support.planes import make_content, make_inventory
from tests.unit.network.planes.conftest import NO_NUMBERS


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    is_file = request.param == "sqlite"
    url = (
        sqlite_url(tmp_path / "pool.db")
        if is_file
        else request.getfixturevalue("postgres_pool_url")
    )
    engine = connect(url)
    prepare_copy(engine, time.time_ns(), "p-test")
    made = open_store(engine, "here")
    yield made
    made.close()


def test_an_inventory_and_demands_are_read_as_they_were_written_last(store: Store) -> None:
    admin = TenancyService(store).bootstrap()
    planes = PlaneService(store)
    with store.read() as connection:
        assert not is_used(connection)
        assert read_inventory(connection) is None
        assert read_gate(connection) == NodeGate()
    planes.put_inventory(make_content())
    planes.demand_plane(admin, "roce", NO_NUMBERS)
    planes.demand_plane(admin, "management", NO_NUMBERS)
    with store.read() as connection:
        facts = read_facts(connection)
        gate = read_gate(connection)
        refuse_closed_nodes(connection, [NodeGrant("other", "node-1", False)])
        # Nodes of this pool are none; the query for jobs of others is valid all the same.
        assert connection.execute(GUESTS).all() == []
    assert facts.inventory == make_inventory()
    assert [(one.plane, one.vlan, one.vni) for one in facts.demands] == [
        (Plane.ROCE, 101, 4001),
        (Plane.MANAGEMENT, 0, 0),
    ]
    assert (gate.tenants, gate.networked, gate.is_closed) == ({"default"}, {"default"}, False)
    planes.put_inventory(make_content(vlans="101-103"))
    with store.read() as connection:
        assert read_inventory(connection) == make_inventory(vlans="101-103")
