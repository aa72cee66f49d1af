"""Networks have security groups with rules, which claims name and ports are in."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "security_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_security_groups_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_groups")),
        sa.UniqueConstraint("public_id", name=op.f("uq_security_groups_public_id")),
        sa.UniqueConstraint("network_id", "name", name=op.f("uq_security_groups_network_id_name")),
    )
    _create_rules()
    op.create_table(
        "network_port_groups",
        sa.Column("port_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["port_id"], ["network_ports.id"], name=op.f("fk_network_port_groups_port_id")
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["security_groups.id"], name=op.f("fk_network_port_groups_group_id")
        ),
        sa.PrimaryKeyConstraint("port_id", "group_id", name=op.f("pk_network_port_groups")),
    )
    op.create_index(op.f("ix_network_port_groups_group_id"), "network_port_groups", ["group_id"])
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "security_groups",
                sa.JSON(none_as_null=True),
                nullable=True,
                comment="row ids of those that its jobs are in; null: none",
            )
        )


def _create_rules() -> None:
    op.create_table(
        "security_rules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("protocol", sa.String(8), nullable=False),
        sa.Column("first_port", sa.Integer(), nullable=True, comment="null: every port"),
        sa.Column("last_port", sa.Integer(), nullable=True),
        sa.Column("prefix", sa.String(18), nullable=True, comment="of the source"),
        sa.Column(
            "source_id",
            sa.Integer(),
            nullable=True,
            comment="the source where there is no prefix; both null: every address",
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["security_groups.id"], name=op.f("fk_security_rules_group_id")
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["security_groups.id"], name=op.f("fk_security_rules_source_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_rules")),
        sa.UniqueConstraint("public_id", name=op.f("uq_security_rules_public_id")),
    )
    op.create_index(op.f("ix_security_rules_group_id"), "security_rules", ["group_id"])
