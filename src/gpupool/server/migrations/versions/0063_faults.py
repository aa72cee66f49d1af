"""Incidents: the XIDs of a node until it is silent, and the jobs that they hit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0063"
down_revision = "0062"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "fault_incidents",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(8), nullable=False, comment="open, accepted, closed"),
        sa.Column("first_ns", sa.BigInteger(), nullable=False, comment="by the node's clock"),
        sa.Column("last_ns", sa.BigInteger(), nullable=False, comment="the same"),
        sa.Column("device_id", sa.Integer(), nullable=False, comment="that is blamed"),
        sa.Column("xid", sa.Integer(), nullable=False, comment="that is blamed"),
        sa.Column("containment", sa.String(16), nullable=False),
        sa.Column("repair", sa.String(8), nullable=False, comment="proposed"),
        sa.Column("note", sa.String(400), nullable=False, server_default=""),
        sa.Column("accepted_by", sa.String(63), nullable=True),
        sa.Column("accepted_ns", sa.BigInteger(), nullable=True),
        sa.Column("closed_by", sa.String(63), nullable=True),
        sa.Column("closed_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_fault_incidents_node_id")),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_fault_incidents_device_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fault_incidents")),
        sa.UniqueConstraint("public_id", name=op.f("uq_fault_incidents_public_id")),
    )
    op.create_index("ix_fault_incidents_node_id_last_ns", "fault_incidents", ["node_id", "last_ns"])
    op.create_index("ix_fault_incidents_device_id_xid", "fault_incidents", ["device_id", "xid"])
    op.create_table(
        "fault_evidence",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("incident_id", _BIG_ID, nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("xid", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False, comment="by the node's clock"),
        sa.Column("recovery", sa.String(16), nullable=True, comment="null: unknown"),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["fault_incidents.id"], name=op.f("fk_fault_evidence_incident_id")
        ),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_fault_evidence_device_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fault_evidence")),
        sa.UniqueConstraint(
            "device_id", "xid", "at_ns", name=op.f("uq_fault_evidence_device_id_xid_at_ns")
        ),
    )
    op.create_index("ix_fault_evidence_incident_id", "fault_evidence", ["incident_id"])
    op.create_table(
        "fault_jobs",
        sa.Column("incident_id", _BIG_ID, nullable=False),
        sa.Column("allocation_id", _BIG_ID, nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column(
            "at_ns", sa.BigInteger(), nullable=False, comment="of the card's first XID in it"
        ),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["fault_incidents.id"], name=op.f("fk_fault_jobs_incident_id")
        ),
        sa.ForeignKeyConstraint(
            ["allocation_id"], ["allocations.id"], name=op.f("fk_fault_jobs_allocation_id")
        ),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_fault_jobs_device_id")
        ),
        sa.PrimaryKeyConstraint(
            "incident_id", "allocation_id", "device_id", name=op.f("pk_fault_jobs")
        ),
    )
    op.create_index("ix_fault_jobs_allocation_id", "fault_jobs", ["allocation_id"])
