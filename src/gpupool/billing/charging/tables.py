"""Tables of charges and of how far they are made."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata
from gpupool.tenancy.tables import tenants

#: Kinds of charges: held by tenants, reserved for them and unused, and the three rests of the cards.
KINDS = ("tenant", "reserved", "idle", "overhead", "unmanaged")

charges = sa.Table(
    "charges",
    metadata,
    # What was held in one whole hour, and what was left of the cards, by all that a price depends
    # on. No amount of money: it is the product of the three last columns of integers.
    sa.Column("hour_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), primary_key=True, comment="tenant, idle, overhead, unmanaged"),
    sa.Column(
        "tenant_id", sa.Integer, primary_key=True, autoincrement=False, comment="0: of no tenant"
    ),
    sa.Column("project_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("user_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("model", sa.String(63), primary_key=True),
    sa.Column("mechanism", sa.String(32), primary_key=True, comment="empty: its node has not said"),
    sa.Column("sharing", sa.String(16), primary_key=True, comment="empty: unknown, as of pods"),
    sa.Column("preemptible", sa.Boolean, primary_key=True),
    sa.Column("card_milliseconds", sa.BigInteger, nullable=False),
    sa.Column("memory_mib_seconds", sa.BigInteger, nullable=False),
    sa.Column("charged_micro_seconds", sa.BigInteger, nullable=False),
    sa.Column(
        "base_micro", sa.BigInteger, nullable=True, comment="price of the card; null: it has none"
    ),
    sa.Column("price_micro", sa.BigInteger, nullable=True, comment="price of the share"),
    sa.Column("factor_milli", sa.Integer, nullable=False),
    sa.Index("ix_charges_tenant_id_hour_s", "tenant_id", "hour_s"),
    sqlite_with_rowid=False,
)

charge_marks = sa.Table(
    "charge_marks",
    metadata,
    # Every hour from `first_s` up to `next_s` has its charges.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("first_s", sa.BigInteger, nullable=False),
    sa.Column("next_s", sa.BigInteger, nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)

adjustments = sa.Table(
    "adjustments",
    metadata,
    # Entries that people make: a credit, or the correction of a sealed month in an open one.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("month", sa.String(7), nullable=False, index=True, comment="in which it is billed"),
    sa.Column("corrects", sa.String(7), nullable=True, comment="the month that it is about"),
    sa.Column("amount_micro", sa.BigInteger, nullable=False, comment="below 0: a credit"),
    sa.Column("reason", sa.String(200), nullable=False),
    sa.Column("made_by", sa.String(63), nullable=False),
    sa.Column("made_ns", sa.BigInteger, nullable=False),
)

reserved_hours = sa.Table(
    "reserved_hours",
    metadata,
    # What became of a reservation in one hour on the cards of one model: the three counts are
    # millionths of a seat times seconds, and add up to what it reserved. The amounts are of what
    # was left unused. A factor of 0: it was not charged, and is a part of the idle time.
    sa.Column("hour_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("reservation_id", BigId, primary_key=True, autoincrement=False),
    sa.Column("model", sa.String(63), primary_key=True),
    sa.Column("tenant_id", sa.Integer, nullable=False),
    sa.Column("used_micro_seconds", sa.BigInteger, nullable=False),
    sa.Column("unused_micro_seconds", sa.BigInteger, nullable=False),
    sa.Column(
        "missing_micro_seconds", sa.BigInteger, nullable=False, comment="cards were late or gone"
    ),
    sa.Column("card_milliseconds", sa.BigInteger, nullable=False),
    sa.Column("memory_mib_seconds", sa.BigInteger, nullable=False),
    sa.Column("dominant_micro_seconds", sa.BigInteger, nullable=False),
    sa.Column("charged_micro_seconds", sa.BigInteger, nullable=False),
    sa.Column(
        "base_micro", sa.BigInteger, nullable=True, comment="price of the card; null: it has none"
    ),
    sa.Column("factor_milli", sa.Integer, nullable=False),
    sa.Index("ix_reserved_hours_tenant_id_hour_s", "tenant_id", "hour_s"),
    sqlite_with_rowid=False,
)

# `allocations` keeps the reservations; charges read when they were and what they reserved.
reservations_view = sa.table(
    "reservations",
    sa.column("id", sa.BigInteger),
    sa.column("public_id", sa.String),
    sa.column("tenant_id", sa.Integer),
    sa.column("name", sa.String),
    sa.column("gpu_milli", sa.Integer),
    sa.column("memory_bytes", sa.BigInteger),
    sa.column("cards", sa.Integer),
    sa.column("model", sa.String),
    sa.column("replicas", sa.Integer),
    sa.column("state", sa.String),
    sa.column("start_ns", sa.BigInteger),
    sa.column("end_ns", sa.BigInteger),
    sa.column("every_ns", sa.BigInteger),
    sa.column("until_ns", sa.BigInteger),
    sa.column("ended_ns", sa.BigInteger),
)


def is_reserved_charge() -> sa.ColumnElement[bool]:
    """Whether a row of `reserved_hours` is charged, and so is apart from the idle time."""
    return sa.and_(reserved_hours.c.factor_milli > 0, reserved_hours.c.charged_micro_seconds > 0)
