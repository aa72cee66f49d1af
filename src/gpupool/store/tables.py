"""The tables that belong to no room: the pool's own row, the two logs, idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.ids import new_id

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: A 64-bit key that SQLite can number by itself.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def new_epoch() -> str:
    """Make a random id of one event log: the same number is another event in another log."""
    return new_id("e")


pool = sa.Table(
    "pool",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("pool_id", sa.String(32), nullable=False),
    sa.Column(
        "holder", sa.String(64), nullable=False, comment="token of the one server that may write"
    ),
    sa.Column(
        "event_seq", sa.BigInteger, nullable=False, comment="last number given in the event log"
    ),
    sa.Column(
        "event_epoch",
        sa.String(16),
        nullable=False,
        server_default="",
        default=new_epoch,
        comment="id of the event log; new where its past was replaced",
    ),
    sa.Column(
        "generation", sa.BigInteger, nullable=False, comment="grows with every change of the ledger"
    ),
    sa.Column("ledger_ns", sa.BigInteger, nullable=False, comment="latest instant in the books"),
    sa.Column(
        "idle_ns",
        sa.BigInteger,
        nullable=False,
        server_default="0",
        comment="ledger time in which no server ran: Idempotency-Keys do not age in it",
    ),
    sa.Column(
        "audit_seq",
        sa.BigInteger,
        nullable=False,
        server_default="0",
        comment="last number given in the audit log",
    ),
    sa.Column(
        "audit_hash",
        sa.String(64),
        nullable=False,
        server_default="0" * 64,
        comment="hash of that record",
    ),
    sa.Column(
        "audit_epoch",
        sa.String(16),
        nullable=False,
        server_default="",
        comment="event_epoch in which the audit log was last written at a start",
    ),
    sa.CheckConstraint("id = 1", name="one_row"),
)

#: Of a PostgreSQL database; empty on SQLite, where one server holds the file. See
#: `store.leadership`.
leader = sa.Table(
    "leader",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(64), nullable=False, comment="token of the server that leads"),
    sa.Column("instance", sa.String(64), nullable=False, comment="its state directory's identity"),
    sa.Column("number", sa.BigInteger, nullable=False, comment="grows with each takeover"),
    sa.Column(
        "expires_us", sa.BigInteger, nullable=False, comment="by the database's clock; 0: given up"
    ),
    sa.Column("address", sa.String(255), nullable=False, comment="where its clients reach it"),
    sa.CheckConstraint("id = 1", name="one_row"),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", BigId, primary_key=True, autoincrement=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.String(40), nullable=False, comment="noun.verb, as job.running"),
    sa.Column("tenant_id", sa.Integer, nullable=True, comment="whose it is; null: the pool's"),
    sa.Column("subject", sa.String(128), nullable=False, comment="public id or name"),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Index("ix_events_tenant_id_seq", "tenant_id", "seq"),
)

#: What people did. Only added to; whole old months are cut. Decision 0106.
audit_records = sa.Table(
    "audit_records",
    metadata,
    sa.Column("seq", BigId, primary_key=True, autoincrement=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("user_name", sa.String(63), nullable=True),
    sa.Column("tenant_id", sa.Integer, nullable=True, comment="whose admins see it"),
    sa.Column("action", sa.String(200), nullable=False, comment="method and route"),
    sa.Column("objects", sa.Text, nullable=False, comment="ids and names, a line each"),
    sa.Column("body", sa.Text, nullable=False, comment="canonical bytes, which are hashed"),
    sa.Column("previous", sa.String(64), nullable=False, comment="hash of the record before"),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Index("ix_audit_records_tenant_id_seq", "tenant_id", "seq"),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("user_id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("response", sa.JSON, nullable=False),
    sa.Column(
        "created_ns",
        sa.BigInteger,
        nullable=False,
        index=True,
        comment="ledger time less the pool's idle_ns",
    ),
)
