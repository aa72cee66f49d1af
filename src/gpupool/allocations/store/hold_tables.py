"""Tables of capacity that is held for later: reservations, promised and estimated starts."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

reservations = sa.Table(
    "reservations",
    metadata,
    # Capacity held for a tenant from a time on; kept after its end, for the record.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False, comment="who made it"),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("gpu_milli", sa.Integer, nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=True),
    sa.Column("cards", sa.Integer, nullable=False),
    sa.Column("model", sa.String(63), nullable=True),
    sa.Column("labels", sa.JSON, nullable=False),
    sa.Column(
        "replicas",
        sa.Integer,
        nullable=False,
        comment="that many nodes or places, each with this shape",
    ),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("start_ns", sa.BigInteger, nullable=False),
    sa.Column("end_ns", sa.BigInteger, nullable=True),
    sa.Column(
        "every_ns", sa.BigInteger, nullable=True, comment="comes again after that long; null: once"
    ),
    sa.Column(
        "until_ns", sa.BigInteger, nullable=True, comment="no repetition begins from then on"
    ),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "ended_ns",
        sa.BigInteger,
        nullable=True,
        comment="when it was deleted; null: not, or before this was recorded",
    ),
    sa.Index("ix_reservations_tenant_id_name", "tenant_id", "name"),
)

promises = sa.Table(
    "promises",
    metadata,
    # Promised starts of claims that wait: one row from the first word until the claim starts.
    sa.Column(
        "claim", sa.String(80), primary_key=True, comment="a job or a gang, by its public id"
    ),
    sa.Column(
        "at_ns", sa.BigInteger, nullable=False, comment="the first instant that was promised"
    ),
    sa.Column(
        "kept", sa.JSON, nullable=False, comment="what is kept for it, as the scheduler has it"
    ),
    sa.Column(
        "notice_ns", sa.BigInteger, nullable=True, comment="start in the last notice; null: at_ns"
    ),
    sa.Column("moved_ns", sa.BigInteger, nullable=True, comment="when a move was last told"),
)

broken_promises = sa.Table(
    "broken_promises",
    metadata,
    # The last notices of claims whose promise was broken: one row until the claim starts, ends or
    # has another promise, which is then a move.
    sa.Column(
        "claim", sa.String(80), primary_key=True, comment="a job or a gang, by its public id"
    ),
    sa.Column("notice_ns", sa.BigInteger, nullable=False, comment="start in the last notice"),
    sa.Column("moved_ns", sa.BigInteger, nullable=True, comment="when a move was last reported"),
)

estimates = sa.Table(
    "estimates",
    metadata,
    # Estimated starts that nothing came of yet: the first one of each sort that a claim was told.
    sa.Column(
        "claim", sa.String(80), primary_key=True, comment="a job or a gang, by its public id"
    ),
    sa.Column("sort", sa.String(63), primary_key=True, comment="as in start_tallies"),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "chance_pct", sa.Integer, nullable=True, comment="told with it; null: too little was known"
    ),
)
