"""Revision 0073 keeps the addresses that are there, and takes what is announced as agreed to."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.network.tables import network_peerings, networks, subnets
from gpupool.server.migrate import prepare_database
from gpupool.store.database import connect, sqlite_url

revision = import_module("gpupool.server.migrations.versions.0073_numbers_of_addresses")

#: Addresses of gateways, after which the row ids of a pool came round.
GATEWAYS = 32_766
#: Lets rows refer to what is not there.
UNCHECKED = {
    "sqlite": "PRAGMA foreign_keys=OFF",
    "postgresql": "SET session_replication_role = replica",
}


@pytest.fixture(params=sorted(UNCHECKED))
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Connection]:
    url = (
        sqlite_url(tmp_path / "gpupool.db")
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_url")
    )
    engine = connect(url)
    prepare_database(engine, 1, "p-1")
    with engine.connect() as made:
        made.exec_driver_sql(UNCHECKED[request.param])
        yield made
    engine.dispose()


def insert_network(connection: sa.Connection, number: int, **values: object) -> None:
    made = {"public_id": f"v-{number}", "tenant_id": number, "name": "a", "mtu": 1442, **values}
    connection.execute(networks.insert().values(id=number, created_ns=1, **made))


def test_gateways_keep_their_addresses_and_a_second_one_gets_another(
    connection: sa.Connection,
) -> None:
    for number in (1, 2, GATEWAYS, GATEWAYS + 1, GATEWAYS + 7):
        insert_network(connection, number, has_gateway=True)
    insert_network(connection, 9, has_gateway=False)
    condition = sa.column("has_gateway", sa.Boolean())
    revision._number_rows(connection, "networks", "gateway_number", GATEWAYS, condition)
    query = sa.select(networks.c.gateway_number).order_by(networks.c.id)
    # The fifth one had the address of the first.
    assert list(connection.execute(query).scalars()) == [1, 2, None, 0, 3, 7]


def test_owners_agreed_to_what_was_announced(connection: sa.Connection) -> None:
    for number in (1, 2, 3):
        insert_network(connection, number)
        values = {"network_id": number, "name": "a", "cidr": f"10.{number}.0.0/24"}
        connection.execute(subnets.insert().values(public_id=f"s-{number}", **values))
    for key, accepter, accepted_ns in (("p-1", "v-2", 5), ("p-2", "v-3", None)):
        values = {"public_id": key, "accepter": accepter, "accepted_ns": accepted_ns}
        made = network_peerings.insert().values(requester_id=1, created_ns=1, **values)
        connection.execute(made)
    revision._number_links(connection)
    revision._agree_to_subnets(connection)
    query = sa.select(network_peerings).order_by(network_peerings.c.id)
    first, second = connection.execute(query).all()
    assert (sorted(first.agreed), first.link) == (["s-1", "s-2"], first.id)
    assert (second.agreed, second.link) == ([], None)
