"""Tables of leaver policies, and of leavers whose jobs are still to be settled."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants, users

leaver_policies = sa.Table(
    "leaver_policies",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("provider", sa.String(63), nullable=True, comment="null: any"),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=True, comment="null: any"),
    sa.Column("act", sa.String(16), nullable=False, comment="stop, keep, hand-over"),
    sa.Column(
        "keep_seconds", sa.BigInteger, nullable=True, comment="kept for so long, then stopped"
    ),
    sa.Column("until_ns", sa.BigInteger, nullable=True, comment="kept until then, then stopped"),
    sa.Column("heir_id", sa.ForeignKey(users.c.id), nullable=True),
    sa.Column("changed_by", sa.String(63), nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "by_tenant",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="set by an admin of the tenant",
    ),
)

_OPEN = sa.text("state = 'open'")

leavers = sa.Table(
    "leavers",
    metadata,
    # Written with the disabling of its user, so that a crash leaves no leaver behind.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False, index=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("provider", sa.String(63), nullable=True),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("act", sa.String(16), nullable=False, comment="stop, keep, hand-over"),
    sa.Column("until_ns", sa.BigInteger, nullable=True, comment="kept until then; null: no end"),
    sa.Column("heir_id", sa.ForeignKey(users.c.id), nullable=True),
    sa.Column("state", sa.String(8), nullable=False, comment="open, done"),
    sa.Column("note", sa.String(400), nullable=False, comment="what is left, or why it is over"),
    sa.Column("stopped", sa.Integer, nullable=False, comment="jobs whose end was requested"),
    sa.Column("handed", sa.Integer, nullable=False, comment="units that went to the heir"),
    sa.Column("made_by", sa.String(63), nullable=False),
    sa.Column("made_ns", sa.BigInteger, nullable=False),
    sa.Column("ended_ns", sa.BigInteger, nullable=True),
    sa.Column("due_ns", sa.BigInteger, nullable=True, comment="not before; null: at once"),
    sa.Column(
        "by_pool",
        sa.Boolean,
        nullable=False,
        server_default=sa.true(),
        comment="the heir may get jobs of any Unix account",
    ),
    sa.Index("ix_leavers_open", "id", sqlite_where=_OPEN, postgresql_where=_OPEN),
)
#: The condition of the partial index, word for word.
IS_OPEN = leavers.c.state == sa.literal_column("'open'")
