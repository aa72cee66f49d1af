"""Services and their replicas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0066"
down_revision = "0065"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "services",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False, comment="its jobs are of"),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("template", sa.String(80), nullable=True, comment="name and version"),
        sa.Column(
            "rule", sa.JSON(), nullable=False, comment="see wire.serving.services.ServiceRule"
        ),
        sa.Column("port", sa.Integer(), nullable=False, comment="the first replica's"),
        sa.Column("body", sa.JSON(), nullable=False, comment="see wire.submissions.JobIn"),
        sa.Column("run_as", sa.JSON(), nullable=True, comment="local user that starts the command"),
        sa.Column("state", sa.String(8), nullable=False, comment="active, deleting"),
        sa.Column("reason", sa.String(400), nullable=False, comment="why replicas do not start"),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("desired", sa.Integer(), nullable=False, comment="replicas"),
        sa.Column("next_number", sa.Integer(), nullable=False, comment="of the next replica"),
        sa.Column("failures", sa.Integer(), nullable=False, comment="failed starts in a row"),
        sa.Column("retry_ns", sa.BigInteger(), nullable=False, comment="no start before"),
        sa.Column(
            "scaled_ns", sa.BigInteger(), nullable=True, comment="the latest change of desired"
        ),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_services_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_services_user_id")),
        sa.UniqueConstraint("public_id", name=op.f("uq_services_public_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_services_tenant_id_name")),
    )
    op.create_table(
        "service_replicas",
        sa.Column("service_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.String(8),
            nullable=False,
            comment="wanted, starting, ready, draining, ended",
        ),
        sa.Column("job", sa.String(80), nullable=True, comment="null: it was not submitted"),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("ready_ns", sa.BigInteger(), nullable=True, comment="when it was first healthy"),
        sa.Column("drain_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("service_id", "number", name=op.f("pk_service_replicas")),
        sa.ForeignKeyConstraint(
            ["service_id"],
            ["services.id"],
            name=op.f("fk_service_replicas_service_id"),
            ondelete="CASCADE",
        ),
    )
