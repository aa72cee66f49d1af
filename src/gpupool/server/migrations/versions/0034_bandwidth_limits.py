"""Networks have bandwidth limits, tenants have caps of them; networks are verified."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bandwidth_limits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(8), nullable=False, comment="port or gateway"),
        sa.Column(
            "target", sa.String(127), nullable=False, comment="DNS name in the network; empty: all"
        ),
        sa.Column("in_kbit", sa.Integer(), nullable=True, comment="kbit/s; null: none"),
        sa.Column("out_kbit", sa.Integer(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_bandwidth_limits_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bandwidth_limits")),
        sa.UniqueConstraint("public_id", name=op.f("uq_bandwidth_limits_public_id")),
        sa.UniqueConstraint(
            "network_id",
            "subject",
            "target",
            name=op.f("uq_bandwidth_limits_network_id_subject_target"),
        ),
    )
    op.create_table(
        "bandwidth_caps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(8), nullable=False, comment="port or gateway"),
        sa.Column("in_kbit", sa.Integer(), nullable=True, comment="kbit/s; null: none"),
        sa.Column("out_kbit", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_bandwidth_caps_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bandwidth_caps")),
        sa.UniqueConstraint(
            "tenant_id", "subject", name=op.f("uq_bandwidth_caps_tenant_id_subject")
        ),
    )
    op.create_table(
        "bandwidth_readings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(16), nullable=False, comment="id of a port or of a network"),
        sa.Column("in_kbit", sa.Integer(), nullable=True, comment="in force; null: none"),
        sa.Column("out_kbit", sa.Integer(), nullable=True),
        sa.Column("in_reason", sa.String(200), nullable=False, comment="why it is not as wanted"),
        sa.Column("out_reason", sa.String(200), nullable=False),
        sa.Column("in_measured_kbit", sa.Integer(), nullable=True),
        sa.Column(
            "in_measured_at", sa.Integer(), nullable=True, comment="the limit then, in kbit/s"
        ),
        sa.Column("out_measured_kbit", sa.Integer(), nullable=True),
        sa.Column("out_measured_at", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bandwidth_readings")),
        sa.UniqueConstraint("key", name=op.f("uq_bandwidth_readings_key")),
    )
    op.create_table(
        "network_verifications",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=True, comment="null: all"),
        sa.Column("network_id", sa.Integer(), nullable=True, comment="null: all"),
        sa.Column("cidr", sa.String(18), nullable=False, comment="of the networks made for it"),
        sa.Column("ports", sa.JSON(), nullable=False, comment="ids of the ports made for it"),
        sa.Column("state", sa.String(8), nullable=False, comment="running, done or failed"),
        sa.Column("checks", sa.JSON(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("finished_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_network_verifications_tenant_id")
        ),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_verifications_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_verifications")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_verifications_public_id")),
    )
