"""Networks have DNS records of their tenants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dns_records",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(253), nullable=False, comment="without the network's domain"),
        sa.Column("address", sa.String(15), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_dns_records_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dns_records")),
        sa.UniqueConstraint(
            "network_id", "name", "address", name=op.f("uq_dns_records_network_id_name_address")
        ),
    )
