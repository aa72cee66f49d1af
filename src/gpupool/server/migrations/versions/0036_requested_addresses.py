"""A claim can ask for an address of its network; the port of a VM keeps its MAC address."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "network_address",
                sa.String(15),
                nullable=True,
                comment="that its job asked for; null: any",
            )
        )
        batch_op.add_column(
            sa.Column(
                "network_mac",
                sa.String(17),
                nullable=True,
                comment="of its port, which a VM keeps; null: made of the port's id",
            )
        )
    with op.batch_alter_table("network_ports", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "mac",
                sa.String(17),
                nullable=True,
                comment="that its claim names; null: made of its id",
            )
        )
