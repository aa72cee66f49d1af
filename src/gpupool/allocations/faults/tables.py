"""Tables of incidents, their evidence, and the jobs that they hit."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

fault_incidents = sa.Table(
    "fault_incidents",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("node_id", sa.ForeignKey("nodes.id"), nullable=False),
    sa.Column("state", sa.String(8), nullable=False, comment="open, accepted, closed"),
    sa.Column("first_ns", sa.BigInteger, nullable=False, comment="by the node's clock"),
    sa.Column("last_ns", sa.BigInteger, nullable=False, comment="the same"),
    # What the evidence adds up to; written with it, in one transaction.
    sa.Column("device_id", sa.ForeignKey("devices.id"), nullable=False, comment="that is blamed"),
    sa.Column("xid", sa.Integer, nullable=False, comment="that is blamed"),
    sa.Column("containment", sa.String(16), nullable=False),
    sa.Column("repair", sa.String(8), nullable=False, comment="proposed"),
    sa.Column("note", sa.String(400), nullable=False, server_default=""),
    sa.Column("accepted_by", sa.String(63), nullable=True),
    sa.Column("accepted_ns", sa.BigInteger, nullable=True),
    sa.Column("closed_by", sa.String(63), nullable=True),
    sa.Column("closed_ns", sa.BigInteger, nullable=True),
    sa.Index("ix_fault_incidents_node_id_last_ns", "node_id", "last_ns"),
    sa.Index("ix_fault_incidents_device_id_xid", "device_id", "xid"),
)

fault_evidence = sa.Table(
    "fault_evidence",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("incident_id", BigId, sa.ForeignKey("fault_incidents.id"), nullable=False),
    sa.Column("device_id", sa.ForeignKey("devices.id"), nullable=False),
    sa.Column("xid", sa.Integer, nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False, comment="by the node's clock"),
    sa.Column("recovery", sa.String(16), nullable=True, comment="null: unknown"),
    # An agent without an answer reports the same again.
    sa.UniqueConstraint("device_id", "xid", "at_ns"),
    sa.Index("ix_fault_evidence_incident_id", "incident_id"),
)

fault_jobs = sa.Table(
    "fault_jobs",
    metadata,
    sa.Column("incident_id", BigId, sa.ForeignKey("fault_incidents.id"), primary_key=True),
    sa.Column("allocation_id", BigId, sa.ForeignKey("allocations.id"), primary_key=True),
    sa.Column("device_id", sa.ForeignKey("devices.id"), primary_key=True),
    sa.Column("at_ns", sa.BigInteger, nullable=False, comment="of the card's first XID in it"),
    sa.Index("ix_fault_jobs_allocation_id", "allocation_id"),
)
