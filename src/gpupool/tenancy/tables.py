"""Tables of tenants, projects, users and tokens."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata


def _quota_columns() -> list[sa.Column[int]]:
    """Make the columns of compute and memory of a node of the quota tree. Null is no limit."""
    names = ("nominal_milli", "borrowing_milli", "nominal_memory_bytes", "borrowing_memory_bytes")
    return [sa.Column(name, sa.BigInteger, nullable=True) for name in names]


def _branch_columns() -> list[sa.Column[int]]:
    """Make what else every node of the quota tree has."""
    return [
        sa.Column("weight_milli", sa.BigInteger, nullable=False, server_default="1000"),
        sa.Column("lending_milli", sa.BigInteger, nullable=True),
        sa.Column("lending_memory_bytes", sa.BigInteger, nullable=True),
    ]


# Parents before children, so that `create_all` and a dump can be read from the top.
cohorts = sa.Table(
    "cohorts",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    sa.Column(
        "parent_id",
        sa.ForeignKey("cohorts.id"),
        nullable=True,
        comment="null: right below the pool",
    ),
    *_quota_columns(),
    *_branch_columns(),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
)

tenants = sa.Table(
    "tenants",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    *_quota_columns(),
    # What its seats add up to now; written with them, in one transaction.
    sa.Column("held_milli", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("held_memory_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("retired_ns", sa.BigInteger, nullable=True, comment="deleted, kept for the books"),
    *_branch_columns(),
    sa.Column(
        "cohort_id",
        sa.ForeignKey("cohorts.id"),
        nullable=True,
        comment="null: right below the pool",
    ),
)

quota_limits = sa.Table(
    "quota_limits",
    metadata,
    # What a node of the quota tree is limited in beside compute and memory: card models, nodes,
    # NVLink domains.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=True),
    sa.Column("cohort_id", sa.ForeignKey("cohorts.id"), nullable=True),
    sa.Column("resource", sa.String(80), nullable=False, comment="gpu:H200, node, nvlink:H100"),
    sa.Column("nominal", sa.BigInteger, nullable=False, comment="milli-devices, or whole cells"),
    sa.Column("borrowing", sa.BigInteger, nullable=True),
    sa.Column("lending", sa.BigInteger, nullable=True),
    sa.UniqueConstraint("tenant_id", "resource"),
    sa.UniqueConstraint("cohort_id", "resource"),
    sa.CheckConstraint("(tenant_id IS NULL) <> (cohort_id IS NULL)", name="one_owner"),
)

projects = sa.Table(
    "projects",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant_id", "name"),
)

users = sa.Table(
    "users",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False, index=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column(
        "unix_uid", sa.BigInteger, nullable=True, unique=True, comment="peer uid that is this user"
    ),
    sa.Column(
        "run_as_uid",
        sa.BigInteger,
        nullable=True,
        comment="bound by an admin, for callers over TCP",
    ),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("disabled_ns", sa.BigInteger, nullable=True),
    sa.Column("retired_ns", sa.BigInteger, nullable=True, comment="deleted, kept for the books"),
    sa.Column(
        "user_kind",
        sa.String(16),
        nullable=False,
        server_default="person",
        comment="person, service",
    ),
    sa.Column("default_project", sa.String(63), nullable=True, comment="null: `default`"),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True, comment="public half of the token"),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False, index=True),
    sa.Column("secret_sha256", sa.String(64), nullable=False),
    sa.Column("label", sa.String(63), nullable=False, server_default=""),
    sa.Column("kind", sa.String(16), nullable=False, comment="api, session, once"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("expires_ns", sa.BigInteger, nullable=True),
    sa.Column("last_used_ns", sa.BigInteger, nullable=True),
    sa.Column("revoked_ns", sa.BigInteger, nullable=True),
    sa.Column(
        "parent_id",
        sa.ForeignKey("tokens.id"),
        nullable=True,
        index=True,
        comment="the token that made it",
    ),
    sa.Column("made_by_id", sa.ForeignKey("users.id"), nullable=True, comment="null: not known"),
    sa.Column(
        "may_mint", sa.Boolean, nullable=False, server_default=sa.false(), comment="may make tokens"
    ),
    sa.Column(
        "scopes",
        sa.String(120),
        nullable=True,
        comment="permissions with spaces; null: all of the role",
    ),
    sa.Column(
        "unix_uid",
        sa.BigInteger,
        nullable=True,
        comment="of a link: the account that made it for itself over the Unix socket",
    ),
)

# `network` keeps the networks; a tenant that has one is not deleted.
networks_view = sa.table("networks", sa.column("tenant_id", sa.Integer))

# `allocations` keeps the reservations; a tenant that has one is not deleted.
reservations_view = sa.table(
    "reservations",
    sa.column("tenant_id", sa.Integer),
    sa.column("state", sa.String),
    sa.column("start_ns", sa.BigInteger),
    sa.column("end_ns", sa.BigInteger),
    sa.column("every_ns", sa.BigInteger),
    sa.column("until_ns", sa.BigInteger),
)
