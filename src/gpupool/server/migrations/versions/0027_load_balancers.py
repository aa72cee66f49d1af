"""Networks have load balancers, and subnets an address from which backends are probed."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "load_balancers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("protocol", sa.String(8), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("target_port", sa.Integer(), nullable=False),
        sa.Column("backends", sa.JSON(), nullable=False, comment="DNS names of jobs"),
        sa.Column("is_checked", sa.Boolean(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_load_balancers_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_load_balancers")),
        sa.UniqueConstraint("public_id", name=op.f("uq_load_balancers_public_id")),
        sa.UniqueConstraint("network_id", "name", name=op.f("uq_load_balancers_network_id_name")),
    )
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("subnets", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "probe_address",
                sa.String(15),
                nullable=True,
                comment="from which backends of load balancers are probed; null: none",
            )
        )
