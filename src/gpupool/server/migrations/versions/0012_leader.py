"""Which of several servers on one PostgreSQL database leads, until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "holder", sa.String(length=64), nullable=False, comment="token of the server that leads"
        ),
        sa.Column(
            "instance",
            sa.String(length=64),
            nullable=False,
            comment="its state directory's identity",
        ),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="grows with each takeover"),
        sa.Column(
            "expires_us",
            sa.BigInteger(),
            nullable=False,
            comment="by the database's clock; 0: given up",
        ),
        sa.Column(
            "address", sa.String(length=255), nullable=False, comment="where its clients reach it"
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )
