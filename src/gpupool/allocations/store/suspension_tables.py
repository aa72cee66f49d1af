"""The table of jobs that are suspended or on the way there."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

suspensions = sa.Table(
    "suspensions",
    metadata,
    sa.Column(
        "allocation_id",
        BigId,
        sa.ForeignKey("allocations.id"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("state", sa.String(16), nullable=False, comment="model.suspension"),
    sa.Column("gpu_milli", sa.Integer, nullable=True, comment="of each seat before it was emptied"),
    sa.Column("memory_bytes", sa.BigInteger, nullable=True, comment="of each seat before"),
    sa.Column(
        "host_bytes", sa.BigInteger, nullable=True, comment="card memory that is on the host"
    ),
    sa.Column("since_ns", sa.BigInteger, nullable=True),
    sa.Column(
        "note", sa.String(400), nullable=True, comment="why the last suspend or resume failed"
    ),
    sa.Column(
        "beneficiary",
        sa.String(16),
        nullable=True,
        comment="job, gang or array that it makes room for, as it was idle; null: by hand",
    ),
    sa.Column(
        "wanted_ns",
        sa.BigInteger,
        nullable=True,
        comment="since when a program of it waits to work again; null: none does",
    ),
)
