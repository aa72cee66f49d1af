"""Networks have flow logs with records, and mirrors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "flow_logs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("choice", sa.String(8), nullable=False, comment="all, allowed or denied"),
        sa.Column(
            "job",
            sa.String(127),
            nullable=True,
            comment="DNS name in the network; null: every job",
        ),
        sa.Column(
            "expired_records", sa.BigInteger(), nullable=False, comment="deleted for newer ones"
        ),
        sa.Column(
            "skipped_packets",
            sa.BigInteger(),
            nullable=False,
            comment="of its network, above the rate",
        ),
        sa.Column("lost_bytes", sa.BigInteger(), nullable=False, comment="of the log, never read"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_flow_logs_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flow_logs")),
        sa.UniqueConstraint("public_id", name=op.f("uq_flow_logs_public_id")),
        sa.UniqueConstraint("network_id", "name", name=op.f("uq_flow_logs_network_id_name")),
    )
    op.create_table(
        "flow_records",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("flow_log_id", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False, comment="of its first packet"),
        sa.Column("verdict", sa.String(8), nullable=False),
        sa.Column("group", sa.String(63), nullable=True, comment="null: the job was in none"),
        sa.Column("rule", sa.String(16), nullable=False),
        sa.Column("protocol", sa.String(8), nullable=False),
        sa.Column("source", sa.String(45), nullable=False),
        sa.Column("source_port", sa.Integer(), nullable=True),
        sa.Column("source_job", sa.String(127), nullable=True),
        sa.Column("target", sa.String(45), nullable=False),
        sa.Column("target_port", sa.Integer(), nullable=True),
        sa.Column("target_job", sa.String(127), nullable=True),
        sa.Column("packets", sa.BigInteger(), nullable=False, comment="that were logged"),
        sa.ForeignKeyConstraint(
            ["flow_log_id"], ["flow_logs.id"], name=op.f("fk_flow_records_flow_log_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flow_records")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_flow_records_flow_log_id"), "flow_records", ["flow_log_id"], unique=False
    )
    op.create_table(
        "flow_reports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column("run", sa.String(16), nullable=False, comment="of the agent"),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="of its last report"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flow_reports")),
        sa.UniqueConstraint("agent", name=op.f("uq_flow_reports_agent")),
    )
    op.create_table(
        "network_mirrors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column(
            "name", sa.String(15), nullable=False, comment="also of the interface in the target"
        ),
        sa.Column("source_id", _BIG_ID, nullable=False),
        sa.Column("target_id", _BIG_ID, nullable=False),
        sa.Column("direction", sa.String(8), nullable=False, comment="both, in or out"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_mirrors_network_id")
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["network_ports.id"], name=op.f("fk_network_mirrors_source_id")
        ),
        sa.ForeignKeyConstraint(
            ["target_id"], ["network_ports.id"], name=op.f("fk_network_mirrors_target_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_mirrors")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_mirrors_public_id")),
        sa.UniqueConstraint("network_id", "name", name=op.f("uq_network_mirrors_network_id_name")),
    )
    op.create_index(
        op.f("ix_network_mirrors_source_id"), "network_mirrors", ["source_id"], unique=False
    )
    op.create_index(
        op.f("ix_network_mirrors_target_id"), "network_mirrors", ["target_id"], unique=False
    )
