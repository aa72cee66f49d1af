"""Tables of claims, jobs, allocations and their seats."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.store.claim_table import claims as claims
from gpupool.store.tables import BigId, metadata

_LIVE_STATES = ("pending", "starting", "running")
_LIVE = sa.text(f"state IN {_LIVE_STATES}")
_LIVE_MEMBER = sa.text(f"state IN {_LIVE_STATES} AND array_id IS NOT NULL")
_IS_MEMBER = sa.text("gang_id IS NOT NULL")
_HAS_REST = sa.text("stopped_ns IS NULL AND made < size")
_IS_UNSETTLED = sa.text("missing > 0 OR ending IS NOT NULL AND launch IS NOT NULL")

gangs = sa.Table(
    "gangs",
    metadata,
    # Jobs that start together or not at all; its members name it, in the order of their rank.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column(
        "spec", sa.JSON, nullable=False, comment="its roles and groups, see allocations.gangs"
    ),
    sa.Column("submitted_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "launch", sa.JSON, nullable=True, comment="how to start its members; null: all have ended"
    ),
    sa.Column(
        "missing",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="members that are not written yet",
    ),
    sa.Column(
        "ending",
        sa.String(16),
        nullable=True,
        comment="why all of it is to end: as stop_requested of a job",
    ),
    sa.Column("ending_grace_s", sa.Integer, nullable=True),
    sa.Index(
        "ix_gangs_unsettled", "id", sqlite_where=_IS_UNSETTLED, postgresql_where=_IS_UNSETTLED
    ),
)
#: The partial index's condition, word for word: members are still to be written or stopped.
IS_UNSETTLED = sa.text(f"({_IS_UNSETTLED.text})")

arrays = sa.Table(
    "arrays",
    metadata,
    # One row per submission with --array. Members become `jobs` when placed: decision 0015.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("claim_id", sa.ForeignKey("claims.id"), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("size", sa.Integer, nullable=False, comment="members in all, numbered from 0"),
    sa.Column("made", sa.Integer, nullable=False, comment="members that have a row in jobs"),
    sa.Column(
        "next_index", sa.Integer, nullable=False, comment="every member below it has a row in jobs"
    ),
    sa.Column(
        "done",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="members that ended so; also the next",
    ),
    sa.Column("failed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("stopped", sa.Integer, nullable=False, server_default="0"),
    sa.Column("lost", sa.Integer, nullable=False, server_default="0"),
    sa.Column("command", sa.JSON, nullable=False),
    sa.Column(
        "launch", sa.JSON, nullable=True, comment="how to start its members; null: all have ended"
    ),
    sa.Column("submitted_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "stopped_ns",
        sa.BigInteger,
        nullable=True,
        comment="when it was stopped: no further member is made",
    ),
    sa.Column("stop_reason", sa.String(400), nullable=False, server_default=""),
    sa.Index("ix_arrays_tenant_id_name", "tenant_id", "name"),
    sa.Index(
        "ix_arrays_rest",
        "tenant_id",
        "id",
        sqlite_where=_HAS_REST,
        postgresql_where=_HAS_REST,
    ),
)
#: The condition of the partial index: members of the array still have to be made.
HAS_REST = sa.and_(arrays.c.stopped_ns.is_(None), arrays.c.made < arrays.c.size)
#: How many members of arrays wait that have no row in `jobs` yet.
NOT_MADE = sa.select(sa.func.coalesce(sa.func.sum(arrays.c.size - arrays.c.made), 0)).where(
    HAS_REST
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("claim_id", sa.ForeignKey("claims.id"), nullable=False),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False),
    sa.Column("name", sa.String(80), nullable=False),
    sa.Column("array_name", sa.String(63), nullable=True),
    sa.Column("array_index", sa.Integer, nullable=True),
    sa.Column("array_id", sa.ForeignKey("arrays.id"), nullable=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column(
        "reason", sa.String(400), nullable=False, server_default="", comment="of the latest state"
    ),
    sa.Column("attached", sa.Boolean, nullable=False),
    sa.Column(
        "stop_requested", sa.String(16), nullable=True, comment="why: user, lease, max-time, drain"
    ),
    sa.Column("stop_grace_s", sa.Integer, nullable=True),
    sa.Column("command", sa.JSON, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("submitted_ns", sa.BigInteger, nullable=False),
    sa.Column("placed_ns", sa.BigInteger, nullable=True),
    sa.Column("started_ns", sa.BigInteger, nullable=True),
    sa.Column("ended_ns", sa.BigInteger, nullable=True),
    sa.Column("exit_code", sa.Integer, nullable=True),
    sa.Column("signal", sa.Integer, nullable=True),
    sa.Column("cpu_milliseconds", sa.BigInteger, nullable=True),
    sa.Column("max_rss_bytes", sa.BigInteger, nullable=True),
    sa.Column("gang_id", sa.ForeignKey("gangs.id"), nullable=True),
    sa.Column("gang_rank", sa.Integer, nullable=True),
    sa.Column("gang_role", sa.String(63), nullable=True),
    sa.Column(
        "launcher",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="starts when its gang runs",
    ),
    sa.Column(
        "leaving_for", sa.String(16), nullable=True, comment="job or gang that gets its seats"
    ),
    sa.Column(
        "saved_ns", sa.BigInteger, nullable=True, comment="when it last said that its work is saved"
    ),
    sa.Column(
        "moving_to", sa.JSON, nullable=True, comment="cards kept for it: [uuid, milli, bytes] each"
    ),
    sa.Column(
        "preemptions",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="times it was sent back to wait",
    ),
    sa.Column(
        "total_milli",
        sa.BigInteger,
        nullable=False,
        server_default="0",
        comment="compute that it asks for, of all its cards",
    ),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
    sa.Column(
        "not_before_ns", sa.BigInteger, nullable=True, comment="the next attempt starts after it"
    ),
    sa.Index("ix_jobs_tenant_id_name", "tenant_id", "name"),
    sa.Index("ix_jobs_tenant_id_array_name", "tenant_id", "array_name"),
    sa.Index(
        "ix_jobs_array_member",
        "array_id",
        "array_index",
        unique=True,
        sqlite_where=sa.text("array_id IS NOT NULL"),
        postgresql_where=sa.text("array_id IS NOT NULL"),
    ),
    sa.Index(
        "ix_jobs_array_live", "array_id", sqlite_where=_LIVE_MEMBER, postgresql_where=_LIVE_MEMBER
    ),
    sa.Index(
        "ix_jobs_gang_member",
        "gang_id",
        "state",
        "launcher",
        sqlite_where=_IS_MEMBER,
        postgresql_where=_IS_MEMBER,
    ),
    sa.Index("ix_jobs_ended_ns", "ended_ns"),
    sa.Index("ix_jobs_tenant_id_ended_ns", "tenant_id", "ended_ns"),
    # The orders of `views.job_search`, of the pool and of a tenant.
    sa.Index("ix_jobs_submitted_ns", "submitted_ns", "id"),
    sa.Index("ix_jobs_tenant_id_submitted_ns", "tenant_id", "submitted_ns", "id"),
    sa.Index("ix_jobs_user_id_submitted_ns", "user_id", "submitted_ns", "id"),
    sa.Index("ix_jobs_started_ns", "started_ns", "id"),
    sa.Index("ix_jobs_tenant_id_started_ns", "tenant_id", "started_ns", "id"),
    sa.Index("ix_jobs_name", "name", "id"),
    sa.Index("ix_jobs_total_milli", "total_milli", "id"),
    sa.Index("ix_jobs_tenant_id_total_milli", "tenant_id", "total_milli", "id"),
    sa.Index("ix_jobs_live", "id", sqlite_where=_LIVE, postgresql_where=_LIVE),
    sa.Index("ix_jobs_tenant_live", "tenant_id", "id", sqlite_where=_LIVE, postgresql_where=_LIVE),
)

#: The condition of the partial indexes, word for word: one with bound values would not find them.
IS_LIVE = jobs.c.state.in_([sa.literal_column(f"'{state}'") for state in _LIVE_STATES])

launches = sa.Table(
    "launches",
    metadata,
    # How to start a single job: environment, directory, credentials. Deleted when the job ends,
    # because an environment holds secrets. Arrays and gangs keep theirs once, in their own row.
    sa.Column("job_id", sa.ForeignKey("jobs.id"), primary_key=True),
    sa.Column("spec", sa.JSON, nullable=False),
)

allocations = sa.Table(
    "allocations",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("job_id", sa.ForeignKey("jobs.id"), nullable=False, index=True),
    sa.Column("claim_id", sa.ForeignKey("claims.id"), nullable=False),
    sa.Column("node_id", sa.ForeignKey("nodes.id"), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("applied_generation", sa.BigInteger, comment="what its node last said is in force"),
    sa.Column("why", sa.String(200), nullable=False, server_default=""),
    sa.Column("fence", sa.String(16), nullable=False, server_default="none"),
    sa.Column("fence_why", sa.String(200), nullable=False, server_default=""),
    sa.Column("mechanism", sa.String(32), nullable=True, comment="null: its node has not said"),
    sa.Column("holds", sa.JSON, nullable=True, comment="level by dimension; null: unknown"),
    sa.Column("layers", sa.JSON, comment="added to the mechanism, in order; null: unknown"),
    sa.Column("refused", sa.JSON, comment="mechanisms that its node refused, and why"),
    sa.Column("attach_socket", sa.String(4096), nullable=True),
    sa.Column(
        "work_seq", sa.BigInteger, nullable=False, comment="when its node last had news of it"
    ),
    sa.Column("granted_ns", sa.BigInteger, nullable=False),
    sa.Column("released_ns", sa.BigInteger, nullable=True),
    sa.Column("cpu_milli", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("host_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column(
        "numa",
        sa.JSON,
        nullable=True,
        comment="of which NUMA nodes: [number, cpu_milli, host_bytes] each",
    ),
    sa.Column(
        "held_back",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="a launcher's, until it may start",
    ),
    sa.Column("sharing", sa.String(16), nullable=True),  # its node's default; null: the claim's
    sa.Index(
        "ix_allocations_node_work",
        "node_id",
        "work_seq",
        sqlite_where=sa.text("state <> 'released'"),
        postgresql_where=sa.text("state <> 'released'"),
    ),
)

seats = sa.Table(
    "seats",
    metadata,
    sa.Column("allocation_id", sa.ForeignKey("allocations.id"), primary_key=True),
    sa.Column("device_id", sa.ForeignKey("devices.id"), primary_key=True),
    sa.Column("gpu_milli", sa.Integer, nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    sa.Column(
        "profile",
        sa.String(63),
        nullable=True,
        comment="of a partition, as its start and size in units",
    ),
    sa.Column("start", sa.Integer, nullable=True),
    sa.Column("size", sa.Integer, nullable=True),
    sa.Index("ix_seats_device_id", "device_id"),
)
