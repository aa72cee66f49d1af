"""Load balancers of HTTP, each with a proxy in a subnet, and ports of jobs that are exposed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "http_balancers",
        sa.Column("balancer_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False, comment="of its proxy"),
        sa.Column("subnet_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(15), nullable=False, comment="of its proxy"),
        sa.Column("https_port", sa.Integer(), nullable=True, comment="null: no certificate"),
        sa.Column("routes", sa.JSON(), nullable=False, comment="host, path, backends, target_port"),
        sa.Column("redirects", sa.Boolean(), nullable=False),
        sa.Column("is_sticky", sa.Boolean(), nullable=False),
        sa.Column("check_path", sa.String(255), nullable=True),
        sa.Column("drain_seconds", sa.Integer(), nullable=False),
        sa.Column("draining", sa.JSON(), nullable=False, comment="DNS names of jobs"),
        sa.Column("certificate", sa.Text(), nullable=True, comment="chain and private key, PEM"),
        sa.Column("certificate_end_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["balancer_id"], ["load_balancers.id"], name=op.f("fk_http_balancers_balancer_id")
        ),
        sa.ForeignKeyConstraint(
            ["subnet_id"], ["subnets.id"], name=op.f("fk_http_balancers_subnet_id")
        ),
        sa.PrimaryKeyConstraint("balancer_id", name=op.f("pk_http_balancers")),
        sa.UniqueConstraint("public_id", name=op.f("uq_http_balancers_public_id")),
        sa.UniqueConstraint(
            "subnet_id", "address", name=op.f("uq_http_balancers_subnet_id_address")
        ),
    )
    op.create_table(
        "exposures",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(16), nullable=False, comment="its id"),
        sa.Column("port", sa.Integer(), nullable=False, comment="on which the job serves"),
        sa.Column("host", sa.String(253), nullable=True, comment="of HTTP; null: any"),
        sa.Column("balancer_id", sa.Integer(), nullable=False),
        sa.Column("forward_id", sa.Integer(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["balancer_id"],
            ["load_balancers.id"],
            name=op.f("fk_exposures_balancer_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["forward_id"],
            ["port_forwards.id"],
            name=op.f("fk_exposures_forward_id"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exposures")),
        sa.UniqueConstraint("job", "port", name=op.f("uq_exposures_job_port")),
    )
