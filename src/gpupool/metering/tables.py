"""Tables of the ledger: intervals while they are young, hours and days when they are old."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

intervals = sa.Table(
    "intervals",
    metadata,
    # One row per seat. It counts end_s - start_s whole seconds; an open one has no end.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("allocation_id", sa.BigInteger, nullable=False),
    sa.Column("device_id", sa.ForeignKey("devices.id"), nullable=False),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False),
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.Column("gpu_milli", sa.Integer, nullable=False),
    sa.Column("memory_mib", sa.BigInteger, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("end_s", sa.BigInteger, nullable=True),
    sa.UniqueConstraint("allocation_id", "device_id"),
    sa.Index("ix_intervals_end_s", "end_s"),
)
