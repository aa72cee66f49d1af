"""A link of the console remembers the Unix account that made it for itself, and so does its session."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("tokens", schema=None, recreate=copied) as batch_op:
        # What SQLite says of a default of no text would be copied with brackets around it.
        batch_op.alter_column("label", existing_type=sa.String(63), server_default="")
        batch_op.add_column(
            sa.Column(
                "unix_uid",
                sa.BigInteger(),
                nullable=True,
                comment="of a link: the account that made it for itself over the Unix socket",
            )
        )
    with op.batch_alter_table("sessions", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "unix_uid",
                sa.BigInteger(),
                nullable=True,
                comment="account that made the link of its login over the Unix socket",
            )
        )
