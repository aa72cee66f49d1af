"""Networks of tenants with their subnets, the ports of jobs, and the engine."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_networks()
    op.create_table(
        "network_engine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(63), nullable=False, comment="whose node runs the databases"),
        sa.Column(
            "state", sa.String(16), nullable=False, comment="starting, ready, failed, stopping"
        ),
        sa.Column("reason", sa.String(400), nullable=False, comment="why it is in that state"),
        sa.Column(
            "uplink",
            sa.String(18),
            nullable=False,
            server_default="",
            comment="prefix between the networks and their machine; empty: none is set up",
        ),
        sa.Column(
            "northbound", sa.String(200), nullable=False, comment="where the server connects"
        ),
        sa.Column(
            "work_seq",
            sa.BigInteger(),
            nullable=False,
            comment="when its agent last had news of it",
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_network_engine_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_engine")),
    )
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "network_id", sa.Integer(), nullable=True, comment="that its jobs join; null: none"
            )
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_claims_network_id"),
            "networks",
            ["network_id"],
            ["id"],
            ondelete="SET NULL",
        )
    _create_ports()
    _create_peerings()


def _create_networks() -> None:
    op.create_table(
        "networks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("mtu", sa.Integer(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("has_gateway", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_networks_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_networks")),
        sa.UniqueConstraint("public_id", name=op.f("uq_networks_public_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_networks_tenant_id_name")),
    )
    op.create_table(
        "subnets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("cidr", sa.String(18), nullable=False),
        sa.Column(
            "next_offset",
            sa.Integer(),
            nullable=False,
            server_default="0",
            comment="where the search for a free address begins: addresses.choose_address",
        ),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_subnets_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subnets")),
        sa.UniqueConstraint("public_id", name=op.f("uq_subnets_public_id")),
        sa.UniqueConstraint("network_id", "name", name=op.f("uq_subnets_network_id_name")),
    )


def _create_peerings() -> None:
    op.create_table(
        "network_peerings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("requester_id", sa.Integer(), nullable=False),
        sa.Column("accepter", sa.String(16), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("accepted_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["requester_id"], ["networks.id"], name=op.f("fk_network_peerings_requester_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_peerings")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_peerings_public_id")),
        sa.UniqueConstraint(
            "requester_id", "accepter", name=op.f("uq_network_peerings_requester_id_accepter")
        ),
    )
    op.create_index(op.f("ix_network_peerings_accepter"), "network_peerings", ["accepter"])


def _create_ports() -> None:
    big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "network_ports",
        sa.Column("id", big, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("subnet_id", sa.Integer(), nullable=False),
        sa.Column("allocation_id", big, nullable=False),
        sa.Column("address", sa.String(15), nullable=False),
        sa.Column("name", sa.String(127), nullable=False, comment="DNS name in the network"),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_ports_network_id")
        ),
        sa.ForeignKeyConstraint(
            ["subnet_id"], ["subnets.id"], name=op.f("fk_network_ports_subnet_id")
        ),
        sa.ForeignKeyConstraint(
            ["allocation_id"], ["allocations.id"], name=op.f("fk_network_ports_allocation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_ports")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_ports_public_id")),
        sa.UniqueConstraint("allocation_id", name=op.f("uq_network_ports_allocation_id")),
        sa.UniqueConstraint(
            "subnet_id", "address", name=op.f("uq_network_ports_subnet_id_address")
        ),
    )
