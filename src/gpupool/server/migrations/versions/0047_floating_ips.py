"""Networks have floating IPs, of a prefix that an admin opens, and lines translate prefixes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "floating_ips",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(39), nullable=False, comment="outside"),
        sa.Column("target", sa.String(127), nullable=False, comment="a job's DNS name or address"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False, comment="what a probe saw last"),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("probed_ns", sa.BigInteger(), nullable=True, comment="since when it is so"),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_floating_ips_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_floating_ips")),
        sa.UniqueConstraint("address", name=op.f("uq_floating_ips_address")),
        sa.UniqueConstraint("public_id", name=op.f("uq_floating_ips_public_id")),
    )
    op.create_index(op.f("ix_floating_ips_network_id"), "floating_ips", ["network_id"])
    op.create_table(
        "floating_prefix",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("prefix", sa.String(43), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_floating_prefix_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_floating_prefix")),
    )
    op.create_table(
        "line_translations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("line_id", sa.Integer(), nullable=False),
        sa.Column("is_peer", sa.Boolean(), nullable=False, comment="of the company's addresses"),
        sa.Column("inside", sa.String(43), nullable=False, comment="as jobs see it"),
        sa.Column("outside", sa.String(43), nullable=False, comment="as the company sees it"),
        sa.ForeignKeyConstraint(
            ["line_id"],
            ["network_lines.id"],
            name=op.f("fk_line_translations_line_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_line_translations")),
    )
    op.create_index(op.f("ix_line_translations_line_id"), "line_translations", ["line_id"])
