"""Processors and main memory by NUMA node: what an allocation has of each, and what is in use of a
node's."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_OF_NODE = sa.Column(
    "used_numa",
    sa.JSON(),
    server_default="[]",
    nullable=False,
    comment="of it, by NUMA node: model.numa",
)
_OF_ALLOCATION = sa.Column(
    "numa",
    sa.JSON(),
    nullable=True,
    comment="of which NUMA nodes: [number, cpu_milli, host_bytes] each",
)


def upgrade() -> None:
    """What is held already is of no NUMA node: none of it is told to move, and its node's totals go
    on counting it."""
    # Copied on SQLite, so that their definitions read as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("nodes", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(_OF_NODE)
    with op.batch_alter_table("allocations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(_OF_ALLOCATION)
        for name in (
            "why",
            "fence_why",
        ):  # copied as it stands, SQLite would keep the default as ('')
            batch_op.alter_column(
                name, existing_type=sa.String(200), server_default="", existing_nullable=False
            )
