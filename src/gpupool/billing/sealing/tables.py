"""Tables of sealed months and of their lines."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

month_seals = sa.Table(
    "month_seals",
    metadata,
    # A row is written once and changes never.
    sa.Column("month", sa.String(7), primary_key=True),
    sa.Column("timezone", sa.String(63), nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("end_s", sa.BigInteger, nullable=False, unique=True),
    sa.Column("lines", sa.Integer, nullable=False, comment="number of rows in month_lines"),
    sa.Column("facts", sa.JSON, nullable=False, comment="currency, tax, measured use by tenant"),
    sa.Column("previous", sa.String(64), nullable=False, comment="hash of the seal before"),
    sa.Column("sha256", sa.String(64), nullable=False, comment="of this row and its lines"),
    sa.Column("sealed_by", sa.String(63), nullable=False),
    sa.Column("sealed_ns", sa.BigInteger, nullable=False),
)

month_lines = sa.Table(
    "month_lines",
    metadata,
    # What month_seals has sealed, by name: users and projects may be deleted later.
    sa.Column("month", sa.ForeignKey(month_seals.c.month), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("line", sa.JSON, nullable=False, comment="as billing.documents.lines.BillLine"),
)
