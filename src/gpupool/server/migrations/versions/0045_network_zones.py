"""Networks are divided into zones, each with databases of its own."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

#: Columns of `network_engine` whose default is the empty text, with their lengths.
_TEXTS = (("uplink", 18), ("forward_ports", 11), ("line_interface", 15), ("line_vlans", 9))


def upgrade() -> None:
    # SQLite puts a column that it only adds behind the constraints, where no new database has it.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("networks", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(sa.Column("zone", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("network_engine", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "zone_size",
                sa.Integer(),
                nullable=False,
                server_default="300",
                comment="networks of a zone at most",
            )
        )
        # Copied as they stand, SQLite would keep the defaults as ('').
        for name, length in _TEXTS:
            batch_op.alter_column(
                name, existing_type=sa.String(length), server_default="", existing_nullable=False
            )
    op.create_table(
        "network_zones",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, comment="starting, ready, failed"),
        sa.Column("reason", sa.String(400), nullable=False, comment="why it is in that state"),
        sa.Column(
            "northbound", sa.String(200), nullable=False, comment="where the server connects"
        ),
        sa.Column("daemons", sa.Integer(), nullable=False, comment="how many run"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_network_zones")),
    )
