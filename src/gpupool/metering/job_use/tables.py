"""The table of histograms of use."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

use_histograms = sa.Table(
    "use_histograms",
    metadata,
    # One row per job with cards that was measured: of its busiest card, since it started.
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("device_id", sa.ForeignKey("devices.id"), nullable=False, comment="one of its cards"),
    sa.Column("cards", sa.Integer, nullable=False),
    sa.Column("gpu_milli", sa.Integer, nullable=False, comment="of a card; 0: no promise"),
    sa.Column("memory_mib", sa.BigInteger, nullable=False, comment="of a card"),
    sa.Column("bins", sa.JSON, nullable=False, comment="milliseconds by use: rightsizing"),
    sa.Column("highest_milli", sa.Integer, nullable=False),
    sa.Column("limited_milliseconds", sa.BigInteger, nullable=False, comment="at its limit"),
    sa.Column(
        "limited_gpu_milli", sa.Integer, nullable=False, comment="most under which; 0: never"
    ),
    sa.Column("peak_bytes", sa.BigInteger, nullable=True, comment="of a card; null: unknown"),
    sa.Column("since_ns", sa.BigInteger, nullable=False),
    sa.Column("until_ns", sa.BigInteger, nullable=False, index=True, comment="counted up to here"),
)
