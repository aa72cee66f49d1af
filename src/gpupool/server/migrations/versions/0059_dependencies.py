"""Jobs wait for the end of others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None

_OPEN = sa.text("outcome IS NULL")
_UNMET = sa.text("outcome IS NULL OR outcome = 'doomed'")
_DOOMED = sa.text("outcome = 'doomed'")


def upgrade() -> None:
    op.create_table(
        "dependencies",
        sa.Column("id", _big_id(), nullable=False),
        sa.Column("claim_id", _big_id(), nullable=False),
        sa.Column(
            "kind", sa.String(8), nullable=False, comment="what is awaited: job, array, gang"
        ),
        sa.Column(
            "target_id",
            sa.BigInteger(),
            nullable=False,
            comment="its row in the table of its kind",
        ),
        sa.Column(
            "target_index", sa.Integer(), nullable=True, comment="of an array: that member alone"
        ),
        sa.Column("target", sa.String(32), nullable=False, comment="its public id"),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("condition", sa.String(4), nullable=False, comment="ok, any, fail"),
        sa.Column(
            "outcome",
            sa.String(8),
            nullable=True,
            comment="met, never, doomed: to be never once its jobs are ended; null: open",
        ),
        sa.Column(
            "ending", sa.String(400), nullable=False, server_default="", comment="how it ended"
        ),
        sa.Column("settled_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dependencies")),
        sa.ForeignKeyConstraint(
            ["claim_id"],
            ["claims.id"],
            name=op.f("fk_dependencies_claim_id"),
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_dependencies_claim_id", "dependencies", ["claim_id"])
    op.create_index(
        "ix_dependencies_open",
        "dependencies",
        ["kind", "target_id"],
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index(
        "ix_dependencies_doomed",
        "dependencies",
        ["id"],
        sqlite_where=_DOOMED,
        postgresql_where=_DOOMED,
    )
    op.create_index(
        "ix_dependencies_unmet",
        "dependencies",
        ["claim_id"],
        sqlite_where=_UNMET,
        postgresql_where=_UNMET,
    )


def _big_id() -> sa.types.TypeEngine[int]:
    """Make a 64-bit key that SQLite can number by itself."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
