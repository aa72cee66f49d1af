"""Browsers have sessions, which a login opens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(16), nullable=False, comment="public half of the cookie"),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column(
            "token_id",
            sa.String(16),
            nullable=True,
            comment="token of its login, with which it ends",
        ),
        sa.Column("may_mint", sa.Boolean(), nullable=False, comment="may make tokens"),
        sa.Column(
            "through_console",
            sa.Boolean(),
            nullable=False,
            comment="opened through the console's own listener, and counts there alone",
        ),
        sa.Column("address", sa.String(64), nullable=False, comment="where its login came from"),
        sa.Column("browser", sa.String(200), nullable=False, comment="User-Agent of its login"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=False),
        sa.Column("used_ns", sa.BigInteger(), nullable=False, comment="exact to a minute"),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id")),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id")),
    )
    op.create_index(op.f("ix_sessions_user_id"), "sessions", ["user_id"])
    op.create_index(op.f("ix_sessions_token_id"), "sessions", ["token_id"])
