"""The books keep what of a promise was delivered; a claim may leave its sharing to its node."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_SUMS = ("kept_milliseconds", "borrowed_milliseconds", "denied_milliseconds")


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table(
        "delivered", schema=None, recreate=copied, table_kwargs={"sqlite_with_rowid": False}
    ) as batch_op:
        for name in _SUMS:
            batch_op.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
    with op.batch_alter_table("job_usage", schema=None, recreate=copied) as batch_op:
        for name in _SUMS:
            batch_op.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column("names_sharing", sa.Boolean(), nullable=False, server_default=sa.true())
        )
    with op.batch_alter_table("allocations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(sa.Column("sharing", sa.String(16), nullable=True))
        # Copied as they stand, SQLite would keep the default as ('').
        for name in ("why", "fence_why"):
            batch_op.alter_column(
                name, existing_type=sa.String(200), server_default="", existing_nullable=False
            )
