"""Nodes of a cluster: a mark on their row, and who held what of their cards from when to when."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("nodes", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "cluster_born_ns",
                sa.BigInteger(),
                nullable=True,
                comment="of a cluster: since when its ledger is",
            )
        )
        batch_op.add_column(
            sa.Column(
                "cluster_generation",
                sa.BigInteger(),
                nullable=True,
                comment="of it that was told; null: our own",
            )
        )
    op.create_table(
        "cluster_holds",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("uid", sa.String(253), nullable=False),
        sa.Column("container", sa.String(63), nullable=False),
        sa.Column("held_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("name", sa.String(317), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_cluster_holds_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_holds")),
        sa.UniqueConstraint(
            "node_id",
            "uid",
            "container",
            "held_ns",
            name=op.f("uq_cluster_holds_node_id_uid_container_held_ns"),
        ),
    )
