"""Tables of nodes, devices and the history of each card's state."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    sa.Column("labels", sa.JSON, nullable=False),
    sa.Column("topology", sa.JSON, nullable=False),
    sa.Column(
        "facts", sa.JSON, nullable=False, comment="driver, CPUs, memory, cgroups, agent version"
    ),
    sa.Column("simulated", sa.Boolean, nullable=False),
    sa.Column(
        "ready", sa.Boolean, nullable=False, comment="its agent has told what became of every job"
    ),
    sa.Column(
        "agent", sa.String(63), nullable=False, comment="who serves it: its own name, or its host's"
    ),
    sa.Column("last_seen_ns", sa.BigInteger, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    # What the allocations on it add up to now; written with them, in one transaction.
    sa.Column("used_cpu_milli", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("used_host_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column(
        "used_numa",
        sa.JSON,
        nullable=False,
        server_default="[]",
        comment="of it, by NUMA node: model.numa",
    ),
    sa.Column(
        "cluster_born_ns",
        sa.BigInteger,
        nullable=True,
        comment="of a cluster: since when its ledger is",
    ),
    sa.Column(
        "cluster_generation",
        sa.BigInteger,
        nullable=True,
        comment="of it that was told; null: our own",
    ),
)

devices = sa.Table(
    "devices",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(64), nullable=False, unique=True),
    sa.Column("node_id", sa.ForeignKey("nodes.id"), nullable=False),
    sa.Column("idx", sa.Integer, nullable=False),
    sa.Column("model", sa.String(63), nullable=False),
    sa.Column("product", sa.String(128), nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    sa.Column("simulated", sa.Boolean, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("health", sa.String(16), nullable=False),
    sa.Column("health_reason", sa.String(200), nullable=False, server_default=""),
    sa.Column("facts", sa.JSON, nullable=False, comment="everything else the probe saw"),
    # What its seats add up to now; written with them, in one transaction.
    sa.Column("used_milli", sa.Integer, nullable=False, server_default="0"),
    sa.Column("used_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shares", sa.Integer, nullable=False, server_default="0", comment="seats on it now"),
    sa.Column(
        "pieces",
        sa.JSON(none_as_null=True),
        nullable=True,
        comment="partitions now: [start, size, profile] each",
    ),
    sa.Column("generation", sa.BigInteger, nullable=False, server_default="1"),
    sa.UniqueConstraint("node_id", "idx"),
    sa.CheckConstraint("used_milli >= 0 AND used_milli <= 1000", name="compute_not_overcommitted"),
    sa.CheckConstraint(
        "used_bytes >= 0 AND used_bytes <= memory_bytes", name="memory_not_overcommitted"
    ),
)

mode_switches = sa.Table(
    "mode_switches",
    metadata,
    # One row per card that is being switched to another mode: `fleet.modes`.
    sa.Column("device_id", sa.ForeignKey("devices.id"), primary_key=True),
    sa.Column("mode", sa.String(16), nullable=False, comment="what was asked for"),
    sa.Column("state_before", sa.String(16), nullable=False, comment="what the card returns to"),
    sa.Column("reason", sa.String(400), nullable=False, comment="what its agent waits for"),
    sa.Column("begun_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "work_seq", sa.BigInteger, nullable=False, comment="when its agent last had news of it"
    ),
)

device_spans = sa.Table(
    "device_spans",
    metadata,
    # One row per stretch of time in which a card's state and health did not change: the
    # capacity side of the books. Seconds are whole, of the ledger's clock.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("device_id", sa.ForeignKey("devices.id"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False, comment="pooled, overhead or unmanaged"),
    sa.Column("memory_mib", sa.BigInteger, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("end_s", sa.BigInteger, nullable=True),
    sa.Index("ix_device_spans_device_id_start_s", "device_id", "start_s"),
    sa.Index("ix_device_spans_end_s", "end_s"),
)
