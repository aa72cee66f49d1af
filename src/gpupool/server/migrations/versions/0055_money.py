"""Price lists, charges of hours, budgets, month seals, and entries that correct them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0053"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_prices()
    _create_budgets()
    _create_seals()


def _create_prices() -> None:
    op.create_table(
        "price_lists",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("from_s", sa.BigInteger(), nullable=False, comment="a whole hour"),
        sa.Column("currency", sa.String(8), nullable=False),
        sa.Column("timezone", sa.String(63), nullable=False),
        sa.Column("rule", sa.String(16), nullable=False),
        sa.Column("rates", sa.JSON(), nullable=False, comment="as wire.billing.prices.RateIn"),
        sa.Column("preemptible_discount_milli", sa.Integer(), nullable=False),
        sa.Column("tax_basis_points", sa.Integer(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_lists")),
        sa.UniqueConstraint("name", name=op.f("uq_price_lists_name")),
        sa.UniqueConstraint("from_s", name=op.f("uq_price_lists_from_s")),
    )
    op.create_table(
        "charges",
        sa.Column("hour_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "kind", sa.String(16), nullable=False, comment="tenant, idle, overhead, unmanaged"
        ),
        sa.Column(
            "tenant_id",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="0: of no tenant",
        ),
        sa.Column("project_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column(
            "mechanism", sa.String(32), nullable=False, comment="empty: its node has not said"
        ),
        sa.Column("sharing", sa.String(16), nullable=False, comment="empty: unknown, as of pods"),
        sa.Column("preemptible", sa.Boolean(), nullable=False),
        sa.Column("card_milliseconds", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib_seconds", sa.BigInteger(), nullable=False),
        sa.Column("charged_micro_seconds", sa.BigInteger(), nullable=False),
        sa.Column(
            "base_micro",
            sa.BigInteger(),
            nullable=True,
            comment="price of the card; null: it has none",
        ),
        sa.Column("price_micro", sa.BigInteger(), nullable=True, comment="price of the share"),
        sa.Column("factor_milli", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "hour_s",
            "kind",
            "tenant_id",
            "project_id",
            "user_id",
            "model",
            "mechanism",
            "sharing",
            "preemptible",
            name=op.f("pk_charges"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_charges_tenant_id_hour_s"), "charges", ["tenant_id", "hour_s"])
    op.create_table(
        "charge_marks",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_s", sa.BigInteger(), nullable=False),
        sa.Column("next_s", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_charge_marks_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_charge_marks")),
    )
    op.create_table(
        "adjustments",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("month", sa.String(7), nullable=False, comment="in which it is billed"),
        sa.Column("corrects", sa.String(7), nullable=True, comment="the month that it is about"),
        sa.Column("amount_micro", sa.BigInteger(), nullable=False, comment="below 0: a credit"),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("made_by", sa.String(63), nullable=False),
        sa.Column("made_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_adjustments_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adjustments")),
        sa.UniqueConstraint("public_id", name=op.f("uq_adjustments_public_id")),
    )
    op.create_index(op.f("ix_adjustments_month"), "adjustments", ["month"])


def _create_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("user_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("period", sa.String(16), nullable=False, comment="month or quarter"),
        sa.Column("timezone", sa.String(63), nullable=False),
        sa.Column("unit", sa.String(16), nullable=False, comment="money or gpu-hours"),
        sa.Column(
            "amount",
            sa.BigInteger(),
            nullable=False,
            comment="micro-units, or card-milliseconds",
        ),
        sa.Column("warn_percents", sa.JSON(), nullable=False),
        sa.Column("hold_percent", sa.Integer(), nullable=False),
        sa.Column("preempt_percent", sa.Integer(), nullable=False),
        sa.Column("grace_seconds", sa.Integer(), nullable=False),
        sa.Column("on_limit", sa.String(16), nullable=False, comment="warn, hold or preempt"),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_budgets_tenant_id")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_budgets_project_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_budgets_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
        sa.UniqueConstraint("public_id", name=op.f("uq_budgets_public_id")),
    )
    op.create_index(op.f("ix_budgets_tenant_id"), "budgets", ["tenant_id"])
    op.create_table(
        "budget_crossings",
        sa.Column("budget_id", sa.Integer().with_variant(sa.BigInteger(), "postgresql")),
        sa.Column("period_start_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("percent", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False, comment="in the unit of the budget"),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["budget_id"],
            ["budgets.id"],
            name=op.f("fk_budget_crossings_budget_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "budget_id", "period_start_s", "percent", name=op.f("pk_budget_crossings")
        ),
    )


def _create_seals() -> None:
    op.create_table(
        "month_seals",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("timezone", sa.String(63), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("end_s", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.Integer(), nullable=False, comment="number of rows in month_lines"),
        sa.Column(
            "facts",
            sa.JSON(),
            nullable=False,
            comment="currency, tax, measured use by tenant",
        ),
        sa.Column("previous", sa.String(64), nullable=False, comment="hash of the seal before"),
        sa.Column("sha256", sa.String(64), nullable=False, comment="of this row and its lines"),
        sa.Column("sealed_by", sa.String(63), nullable=False),
        sa.Column("sealed_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("month", name=op.f("pk_month_seals")),
        sa.UniqueConstraint("end_s", name=op.f("uq_month_seals_end_s")),
    )
    op.create_table(
        "month_lines",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "line",
            sa.JSON(),
            nullable=False,
            comment="as billing.documents.lines.BillLine",
        ),
        sa.ForeignKeyConstraint(
            ["month"], ["month_seals.month"], name=op.f("fk_month_lines_month")
        ),
        sa.PrimaryKeyConstraint("month", "number", name=op.f("pk_month_lines")),
    )
