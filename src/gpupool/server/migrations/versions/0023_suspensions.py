"""A job can be suspended: its memory is on the host and its seats are empty."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "suspensions",
        sa.Column("allocation_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, comment="model.suspension"),
        sa.Column(
            "gpu_milli", sa.Integer, nullable=True, comment="of each seat before it was emptied"
        ),
        sa.Column("memory_bytes", sa.BigInteger, nullable=True, comment="of each seat before"),
        sa.Column(
            "host_bytes", sa.BigInteger, nullable=True, comment="card memory that is on the host"
        ),
        sa.Column("since_ns", sa.BigInteger, nullable=True),
        sa.Column(
            "note", sa.String(400), nullable=True, comment="why the last suspend or resume failed"
        ),
        sa.ForeignKeyConstraint(
            ["allocation_id"], ["allocations.id"], name=op.f("fk_suspensions_allocation_id")
        ),
        sa.PrimaryKeyConstraint("allocation_id", name=op.f("pk_suspensions")),
    )
