"""The databases of networks are a cluster of several machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "network_database_servers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column(
            "cluster", sa.BigInteger(), nullable=False, comment="counts clusters of the pool"
        ),
        sa.Column("state", sa.String(16), nullable=False, comment="joining, joined, lost, leaving"),
        *(
            sa.Column(f"{database}_{name}", kind, nullable=False, comment=comment)
            for name, kind, comment in (
                ("remote", sa.String(80), "for clients"),
                ("peer", sa.String(80), "for other servers"),
                ("role", sa.String(16), "none: does not serve"),
                ("term", sa.BigInteger(), None),
                ("members", sa.JSON(), "peers that it knows"),
            )
            for database in ("northbound", "southbound")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_database_servers")),
        sa.UniqueConstraint("agent", name=op.f("uq_network_database_servers_agent")),
    )
