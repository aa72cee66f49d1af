"""A token knows what and who made it, and whether it may make tokens."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("tokens", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "parent_id", sa.String(length=16), nullable=True, comment="the token that made it"
            )
        )
        batch_op.add_column(
            sa.Column("made_by_id", sa.Integer(), nullable=True, comment="null: not known")
        )
        batch_op.add_column(
            sa.Column(
                "may_mint",
                sa.Boolean(),
                nullable=False,
                server_default=sa.false(),
                comment="may make tokens",
            )
        )
        # Copied as it stands, SQLite would keep the default as ('').
        batch_op.alter_column(
            "label", existing_type=sa.String(length=63), server_default="", existing_nullable=False
        )
        batch_op.create_index(batch_op.f("ix_tokens_parent_id"), ["parent_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_tokens_parent_id"), "tokens", ["parent_id"], ["id"]
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_tokens_made_by_id"), "users", ["made_by_id"], ["id"]
        )
