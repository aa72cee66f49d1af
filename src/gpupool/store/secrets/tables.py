"""The table that names the key of the pool's secrets; it never holds a key."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

secret_state = sa.Table(
    "secret_state",
    metadata,
    # No row: nothing is encrypted. With it, every secret is.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key_id", sa.String(16), nullable=False, comment="encrypts what is written"),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    # A later version marks more columns, and encrypts them at its first start.
    sa.Column("covered", sa.JSON, nullable=False, comment="table/column of what is encrypted"),
    sa.CheckConstraint("id = 1", name="one_row"),
)
