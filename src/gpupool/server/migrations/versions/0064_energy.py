"""Measured energy of cards in slots, and the site's dated factors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0063"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "energy_slots",
        sa.Column("width_s", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("slot_s", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column(
            "kind", sa.String(16), nullable=False, comment="tenant, idle, overhead, unmanaged"
        ),
        sa.Column(
            "tenant_id",
            sa.Integer(),
            nullable=False,
            autoincrement=False,
            comment="0: of no tenant",
        ),
        sa.Column("project_id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("user_id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("milliwatt_hours", sa.BigInteger(), nullable=False),
        sa.Column(
            "measured_milliseconds",
            sa.BigInteger(),
            nullable=False,
            comment="card-milliseconds of the books in which the card was measured",
        ),
        sa.PrimaryKeyConstraint(
            "width_s",
            "slot_s",
            "kind",
            "tenant_id",
            "project_id",
            "user_id",
            "model",
            name=op.f("pk_energy_slots"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "energy_marks",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("batch", sa.String(40), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_energy_marks_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_energy_marks")),
    )
    op.create_table(
        "energy_factors",
        sa.Column("from_s", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("pue_milli", sa.Integer(), nullable=False),
        sa.Column("grid_milligrams", sa.BigInteger(), nullable=False, comment="CO2e per kWh"),
        sa.Column("set_by", sa.String(63), nullable=False),
        sa.Column("set_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("from_s", name=op.f("pk_energy_factors")),
    )
