"""The pool's networks may be in an OVN that is there already, and tenants have quotas of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "network_external_ovn",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("northbound", sa.String(400), nullable=False, comment="servers, with commas"),
        sa.Column("southbound", sa.String(400), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False, comment="PEM; empty: without TLS"),
        sa.Column("private_key", sa.Text(), nullable=False, comment="PEM"),
        sa.Column("trusted", sa.Text(), nullable=False, comment="PEM of authorities"),
        sa.Column(
            "has_rows",
            sa.Boolean(),
            nullable=False,
            comment="the pool's are to be deleted at the end",
        ),
        sa.Column("reason", sa.String(400), nullable=False, comment="why they are not deleted yet"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_external_ovn")),
        sa.CheckConstraint("id = 1", name=op.f("ck_network_external_ovn_one_row")),
    )
    op.create_table(
        "network_quotas",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False, comment="field of NetworkQuotaIn"),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_quotas")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_network_quotas_tenant_id")
        ),
        sa.UniqueConstraint("tenant_id", "kind", name=op.f("uq_network_quotas_tenant_id_kind")),
    )
