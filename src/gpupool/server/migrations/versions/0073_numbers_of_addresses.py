"""Gateways, floating IPs and links of peerings have a number for their inner address, in place of
their row id modulo what fits; a peering says to which subnets the owners have agreed.

Each keeps its address. Where two have the same one, the later one gets the lowest that is free.
Owners have agreed to the subnets that there are.
"""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0073"
down_revision = "0072"
branch_labels = None
depends_on = None

#: Addresses that there are of each kind: of half a /16 prefix, and links of 4 addresses in a /16.
_GATEWAYS = 2**15 - 2
_FLOATING = 2**15 - 1
_LINKS = 2**14


def upgrade() -> None:
    connection = op.get_bind()
    # SQLite puts a column that it only adds behind the constraints, where no new database has it.
    copied: Literal["always", "never"] = (
        "always" if connection.dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("networks", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "gateway_number",
                sa.Integer(),
                nullable=True,
                comment="of the gateway's address on the uplink; null: no gateway",
            )
        )
    with op.batch_alter_table("floating_ips", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "inner_number",
                sa.Integer(),
                nullable=True,
                comment="of its address on the uplink",
            )
        )
    with op.batch_alter_table("network_peerings", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "link",
                sa.Integer(),
                nullable=True,
                comment="number of its addresses between the two routers; null: not accepted",
            )
        )
        batch_op.add_column(
            sa.Column(
                "agreed",
                sa.JSON(),
                nullable=False,
                server_default="[]",
                comment="ids of the subnets of both sides that the owner of the other one agreed to",
            )
        )
    has_gateway = sa.column("has_gateway", sa.Boolean())
    _number_rows(connection, "networks", "gateway_number", _GATEWAYS, has_gateway)
    _number_rows(connection, "floating_ips", "inner_number", _FLOATING, sa.true())
    _number_links(connection)
    _agree_to_subnets(connection)
    with op.batch_alter_table("floating_ips", schema=None) as batch_op:
        batch_op.alter_column(
            "inner_number",
            existing_type=sa.Integer(),
            nullable=False,
            existing_comment="of its address on the uplink",
        )
    for table, column in (("networks", "gateway_number"), ("floating_ips", "inner_number")):
        op.create_index(f"ix_{table}_{column}", table, [column], unique=True)


def _number_rows(
    connection: sa.Connection,
    name: str,
    column: str,
    count: int,
    condition: sa.ColumnElement[bool],
) -> None:
    """Number rows as their addresses are; rows that would have the same number come last."""
    table = sa.table(name, sa.column("id"), sa.column(column))
    query = sa.select(table.c.id).where(condition).order_by(table.c.id)
    numbers = dict[int, int]()
    later = list[int]()
    for row_id in connection.execute(query).scalars().all():
        if row_id % count in numbers:
            later.append(row_id)
        else:
            numbers[row_id % count] = row_id
    for row_id in later:
        numbers[next(one for one in range(count) if one not in numbers)] = row_id
    for number, row_id in numbers.items():
        ours = table.update().where(table.c.id == row_id)
        connection.execute(ours.values({column: number}))


def _number_links(connection: sa.Connection) -> None:
    table = sa.table(
        "network_peerings", sa.column("id"), sa.column("link"), sa.column("accepted_ns")
    )
    accepted = table.c.accepted_ns.is_not(None)
    connection.execute(table.update().where(accepted).values(link=table.c.id % _LINKS))


def _agree_to_subnets(connection: sa.Connection) -> None:
    peerings = sa.table(
        "network_peerings",
        sa.column("id"),
        sa.column("requester_id"),
        sa.column("accepter"),
        sa.column("accepted_ns"),
        sa.column("agreed", sa.JSON()),
    )
    networks = sa.table("networks", sa.column("id"), sa.column("public_id"))
    subnets = sa.table("subnets", sa.column("network_id"), sa.column("public_id"))
    query = (
        sa.select(peerings.c.id, peerings.c.requester_id, networks.c.id.label("accepter_id"))
        .join(networks, networks.c.public_id == peerings.c.accepter)
        .where(peerings.c.accepted_ns.is_not(None))
    )
    for row in connection.execute(query).all():
        ends = subnets.c.network_id.in_((row.requester_id, row.accepter_id))
        keys = list(connection.execute(sa.select(subnets.c.public_id).where(ends)).scalars())
        ours = peerings.update().where(peerings.c.id == row.id)
        connection.execute(ours.values(agreed=keys))
