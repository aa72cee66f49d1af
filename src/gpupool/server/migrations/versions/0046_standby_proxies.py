"""Load balancers of HTTP have a proxy on each machine of a pair of gateways."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("http_balancers", schema=None, recreate=copied) as batch:
        batch.add_column(
            sa.Column(
                "standby_id",
                sa.String(16),
                nullable=True,
                comment="of the proxy on the second machine of a pair; null: none",
            )
        )
        batch.add_column(sa.Column("standby_address", sa.String(15), nullable=True))
    with op.batch_alter_table("network_gateways", schema=None, recreate=copied) as batch:
        batch.add_column(
            sa.Column(
                "balancers",
                sa.Integer(),
                nullable=False,
                server_default="0",
                comment="load balancers of HTTP that answer there",
            )
        )
