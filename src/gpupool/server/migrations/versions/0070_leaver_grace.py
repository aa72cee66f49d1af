"""A leaver's jobs can be left alone for a time, a tenant's admin can set what becomes of them, and
broken promises keep their last notice.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0069"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("leavers", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("due_ns", sa.BigInteger(), nullable=True, comment="not before; null: at once")
        )
        batch_op.add_column(
            sa.Column(
                "by_pool",
                sa.Boolean(),
                nullable=False,
                server_default=sa.true(),
                comment="the heir may get jobs of any Unix account",
            )
        )
    with op.batch_alter_table("leaver_policies", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "by_tenant",
                sa.Boolean(),
                nullable=False,
                server_default=sa.false(),
                comment="set by an admin of the tenant",
            )
        )
    with op.batch_alter_table("advice_runs", schema=None) as batch_op:
        batch_op.alter_column(
            "state",
            existing_type=sa.String(8),
            existing_nullable=False,
            comment="applied, waits or returned; proposed or lapsed",
        )
    op.create_table(
        "broken_promises",
        sa.Column(
            "claim", sa.String(80), nullable=False, comment="a job or a gang, by its public id"
        ),
        sa.Column("notice_ns", sa.BigInteger(), nullable=False, comment="start in the last notice"),
        sa.Column(
            "moved_ns", sa.BigInteger(), nullable=True, comment="when a move was last reported"
        ),
        sa.PrimaryKeyConstraint("claim", name=op.f("pk_broken_promises")),
    )
