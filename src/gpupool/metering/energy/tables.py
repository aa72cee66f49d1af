"""Tables of measured energy, and of the site's dated factors that turn it into CO2e."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

energy_slots = sa.Table(
    "energy_slots",
    metadata,
    # What cards drew, in slots of 300 s, an hour, or a day. No row: nothing was measured.
    sa.Column("width_s", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), primary_key=True, comment="tenant, idle, overhead, unmanaged"),
    sa.Column(
        "tenant_id", sa.Integer, primary_key=True, autoincrement=False, comment="0: of no tenant"
    ),
    sa.Column("project_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("user_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("model", sa.String(63), primary_key=True),
    sa.Column("milliwatt_hours", sa.BigInteger, nullable=False),
    sa.Column(
        "measured_milliseconds",
        sa.BigInteger,
        nullable=False,
        comment="card-milliseconds of the books in which the card was measured",
    ),
    sqlite_with_rowid=False,
)

energy_marks = sa.Table(
    "energy_marks",
    metadata,
    # The last batch of samples that is in the slots: a batch that is written again changes nothing.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch", sa.String(40), nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)

energy_factors = sa.Table(
    "energy_factors",
    metadata,
    # A row holds from `from_s` until the next one; it changes only before it begins.
    sa.Column("from_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("pue_milli", sa.Integer, nullable=False),
    sa.Column("grid_milligrams", sa.BigInteger, nullable=False, comment="CO2e per kWh"),
    sa.Column("set_by", sa.String(63), nullable=False),
    sa.Column("set_ns", sa.BigInteger, nullable=False),
)
