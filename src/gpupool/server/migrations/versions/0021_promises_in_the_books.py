"""The books keep what of a promise was delivered, borrowed and denied."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
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
