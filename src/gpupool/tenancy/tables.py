"""Tables of tenants, projects, users and tokens."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

tenants = sa.Table(
    "tenants",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    # Quota: null means no limit of that kind.
    sa.Column("nominal_milli", sa.BigInteger, nullable=True),
    sa.Column("borrowing_milli", sa.BigInteger, nullable=True),
    sa.Column("nominal_memory_bytes", sa.BigInteger, nullable=True),
    sa.Column("borrowing_memory_bytes", sa.BigInteger, nullable=True),
    # What its seats add up to now; written with them, in one transaction.
    sa.Column("held_milli", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("held_memory_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("retired_ns", sa.BigInteger, nullable=True, comment="deleted, kept for the books"),
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
    sa.Column("unix_uid", sa.BigInteger, nullable=True, unique=True, comment="peer uid that is this user"),
    sa.Column("run_as_uid", sa.BigInteger, nullable=True, comment="bound by an admin, for callers over TCP"),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("disabled_ns", sa.BigInteger, nullable=True),
    sa.Column("retired_ns", sa.BigInteger, nullable=True, comment="deleted, kept for the books"),
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
)
