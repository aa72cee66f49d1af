"""Versioned templates from which people run jobs by a few fields."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "templates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=True, comment="null: of all"),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("default_version", sa.Integer(), nullable=True, comment="null: the newest"),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_templates")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_templates_tenant_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_templates_tenant_id_name")),
    )
    op.create_table(
        "template_versions",
        sa.Column("template_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.JSON(), nullable=False, comment="see wire.templates.TemplateIn"),
        sa.Column("user_id", sa.Integer(), nullable=False, comment="added it"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("template_id", "version", name=op.f("pk_template_versions")),
        sa.ForeignKeyConstraint(
            ["template_id"], ["templates.id"], name=op.f("fk_template_versions_template_id")
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_template_versions_user_id")
        ),
    )
