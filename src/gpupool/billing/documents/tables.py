"""The table of documents that are kept."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.billing.sealing.tables import month_seals
from gpupool.store.tables import metadata

month_documents = sa.Table(
    "month_documents",
    metadata,
    # A document of a sealed month as it was first made. A row is written once and changes never.
    sa.Column("month", sa.ForeignKey(month_seals.c.month), primary_key=True),
    sa.Column("tenant", sa.String(63), primary_key=True, comment="empty: the whole pool"),
    sa.Column("form", sa.String(8), primary_key=True, comment="xlsx, pdf or focus"),
    sa.Column("language", sa.String(2), primary_key=True, comment="empty: it has no words"),
    sa.Column("sha256", sa.String(64), nullable=False, comment="of the document"),
    sa.Column("packed", sa.LargeBinary, nullable=False, comment="the document, by zlib"),
    sa.Column("made_ns", sa.BigInteger, nullable=False),
)
