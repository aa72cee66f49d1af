"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "kind", sa.String(length=40), nullable=False, comment="noun.verb, as job.running"
        ),
        sa.Column(
            "tenant_id", sa.Integer(), nullable=True, comment="whose it is; null: the pool's"
        ),
        sa.Column("subject", sa.String(length=128), nullable=False, comment="public id or name"),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("ix_events_tenant_id_seq", ["tenant_id", "seq"], unique=False)

    op.create_table(
        "idempotency",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("response", sa.JSON(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "key", name=op.f("pk_idempotency")),
    )
    with op.batch_alter_table("idempotency", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_created_ns"), ["created_ns"], unique=False)

    op.create_table(
        "job_usage",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("gpu_milliseconds", sa.BigInteger(), nullable=True),
        sa.Column("cpu_milliseconds", sa.BigInteger(), nullable=True),
        sa.Column("at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_usage")),
    )
    with op.batch_alter_table("job_usage", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_usage_at_s"), ["at_s"], unique=False)

    op.create_table(
        "ledger_marks",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fine_s", sa.BigInteger(), nullable=False),
        sa.Column("coarse_s", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_ledger_marks_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_marks")),
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("topology", sa.JSON(), nullable=False),
        sa.Column(
            "facts",
            sa.JSON(),
            nullable=False,
            comment="driver, CPUs, memory, cgroups, agent version",
        ),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column(
            "ready",
            sa.Boolean(),
            nullable=False,
            comment="its agent has told what became of every job",
        ),
        sa.Column(
            "agent",
            sa.String(length=63),
            nullable=False,
            comment="who serves it: its own name, or its host's",
        ),
        sa.Column("last_seen_ns", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("name", name=op.f("uq_nodes_name")),
    )
    op.create_table(
        "pool",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool_id", sa.String(length=32), nullable=False),
        sa.Column(
            "holder",
            sa.String(length=64),
            nullable=False,
            comment="token of the one server that may write",
        ),
        sa.Column(
            "event_seq",
            sa.BigInteger(),
            nullable=False,
            comment="last number given in the event log",
        ),
        sa.Column(
            "generation",
            sa.BigInteger(),
            nullable=False,
            comment="grows with every change of the ledger",
        ),
        sa.Column(
            "ledger_ns", sa.BigInteger(), nullable=False, comment="latest instant in the books"
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_pool_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pool")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("nominal_milli", sa.BigInteger(), nullable=True),
        sa.Column("borrowing_milli", sa.BigInteger(), nullable=True),
        sa.Column("nominal_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("borrowing_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("held_milli", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_memory_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "retired_ns", sa.BigInteger(), nullable=True, comment="deleted, kept for the books"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name", name=op.f("uq_tenants_name")),
    )
    op.create_table(
        "devices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=64), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=63), nullable=False),
        sa.Column("product", sa.String(length=128), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("health", sa.String(length=16), nullable=False),
        sa.Column("health_reason", sa.String(length=200), server_default="", nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False, comment="everything else the probe saw"),
        sa.Column("used_milli", sa.Integer(), server_default="0", nullable=False),
        sa.Column("used_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "shares", sa.Integer(), server_default="0", nullable=False, comment="seats on it now"
        ),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.CheckConstraint(
            "used_bytes >= 0 AND used_bytes <= memory_bytes",
            name=op.f("ck_devices_memory_not_overcommitted"),
        ),
        sa.CheckConstraint(
            "used_milli >= 0 AND used_milli <= 1000",
            name=op.f("ck_devices_compute_not_overcommitted"),
        ),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_devices_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_devices")),
        sa.UniqueConstraint("node_id", "idx", name=op.f("uq_devices_node_id_idx")),
        sa.UniqueConstraint("uuid", name=op.f("uq_devices_uuid")),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_projects_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_projects_tenant_id_name")),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("cards", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=63), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_reservations_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
        sa.UniqueConstraint("public_id", name=op.f("uq_reservations_public_id")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("unix_uid", sa.BigInteger(), nullable=True, comment="peer uid that is this user"),
        sa.Column(
            "run_as_uid",
            sa.BigInteger(),
            nullable=True,
            comment="bound by an admin, for callers over TCP",
        ),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("disabled_ns", sa.BigInteger(), nullable=True),
        sa.Column(
            "retired_ns", sa.BigInteger(), nullable=True, comment="deleted, kept for the books"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_users_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
        sa.UniqueConstraint("unix_uid", name=op.f("uq_users_unix_uid")),
    )
    with op.batch_alter_table("users", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_users_tenant_id"), ["tenant_id"], unique=False)

    op.create_table(
        "claims",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False),
        sa.Column(
            "memory_bytes", sa.BigInteger(), nullable=True, comment="per card; null: in proportion"
        ),
        sa.Column("cards", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=63), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("sharing", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("max_seconds", sa.BigInteger(), nullable=True),
        sa.Column("submitted_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_claims_project_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_claims_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_claims_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claims")),
        sa.UniqueConstraint("public_id", name=op.f("uq_claims_public_id")),
    )
    op.create_table(
        "delivered",
        sa.Column("width_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slot_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("gpu_milliseconds", sa.BigInteger(), nullable=True),
        sa.Column("cpu_milliseconds", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_delivered_project_id")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_delivered_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_delivered_user_id")),
        sa.PrimaryKeyConstraint(
            "width_s",
            "slot_s",
            "tenant_id",
            "project_id",
            "user_id",
            "job_id",
            name=op.f("pk_delivered"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "device_spans",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column(
            "kind", sa.String(length=16), nullable=False, comment="pooled, overhead or unmanaged"
        ),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("end_s", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_device_spans_device_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_spans")),
    )
    with op.batch_alter_table("device_spans", schema=None) as batch_op:
        batch_op.create_index(
            "ix_device_spans_device_id_start_s", ["device_id", "start_s"], unique=False
        )
        batch_op.create_index("ix_device_spans_end_s", ["end_s"], unique=False)

    op.create_table(
        "intervals",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("allocation_id", sa.BigInteger(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("end_s", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_intervals_device_id")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_intervals_project_id")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_intervals_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_intervals_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intervals")),
        sa.UniqueConstraint(
            "allocation_id", "device_id", name=op.f("uq_intervals_allocation_id_device_id")
        ),
    )
    with op.batch_alter_table("intervals", schema=None) as batch_op:
        batch_op.create_index("ix_intervals_end_s", ["end_s"], unique=False)
        batch_op.create_index("ix_intervals_start_s", ["start_s"], unique=False)

    op.create_table(
        "partitions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.String(length=32), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_partitions_device_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_partitions")),
        sa.UniqueConstraint("uuid", name=op.f("uq_partitions_uuid")),
    )
    with op.batch_alter_table("partitions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_partitions_device_id"), ["device_id"], unique=False)

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=16), nullable=False, comment="public half of the token"),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=63), server_default="", nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False, comment="api, session, once"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=True),
        sa.Column("last_used_ns", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_tokens_user_id"), ["user_id"], unique=False)

    op.create_table(
        "usage_days",
        sa.Column("day_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("under", sa.String(length=16), nullable=False),
        sa.Column("card_milliseconds", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib_seconds", sa.BigInteger(), nullable=False),
        sa.Column("dominant_micro_seconds", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_usage_days_device_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_usage_days_project_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_usage_days_tenant_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_usage_days_user_id")),
        sa.PrimaryKeyConstraint(
            "day_s",
            "device_id",
            "tenant_id",
            "project_id",
            "user_id",
            "under",
            name=op.f("pk_usage_days"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "usage_hours",
        sa.Column("hour_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("under", sa.String(length=16), nullable=False),
        sa.Column("card_milliseconds", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib_seconds", sa.BigInteger(), nullable=False),
        sa.Column("dominant_micro_seconds", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_usage_hours_device_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_usage_hours_project_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_usage_hours_tenant_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_usage_hours_user_id")),
        sa.PrimaryKeyConstraint(
            "hour_s",
            "device_id",
            "tenant_id",
            "project_id",
            "user_id",
            "job_id",
            "under",
            name=op.f("pk_usage_hours"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("claim_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("array_name", sa.String(length=63), nullable=True),
        sa.Column("array_index", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column(
            "reason",
            sa.String(length=400),
            server_default="",
            nullable=False,
            comment="of the latest state",
        ),
        sa.Column("attached", sa.Boolean(), nullable=False),
        sa.Column(
            "stop_requested",
            sa.String(length=16),
            nullable=True,
            comment="why: user, lease, max-time, drain",
        ),
        sa.Column("stop_grace_s", sa.Integer(), nullable=True),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("submitted_ns", sa.BigInteger(), nullable=False),
        sa.Column("placed_ns", sa.BigInteger(), nullable=True),
        sa.Column("started_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("cpu_milliseconds", sa.BigInteger(), nullable=True),
        sa.Column("max_rss_bytes", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["claim_id"], ["claims.id"], name=op.f("fk_jobs_claim_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_jobs_project_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_jobs_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_jobs_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("public_id", name=op.f("uq_jobs_public_id")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index("ix_jobs_ended_ns", ["ended_ns"], unique=False)
        batch_op.create_index(
            "ix_jobs_live",
            ["id"],
            unique=False,
            sqlite_where=sa.text("state IN ('pending', 'starting', 'running')"),
            postgresql_where=sa.text("state IN ('pending', 'starting', 'running')"),
        )
        batch_op.create_index(
            "ix_jobs_tenant_id_array_name", ["tenant_id", "array_name"], unique=False
        )
        batch_op.create_index("ix_jobs_tenant_id_ended_ns", ["tenant_id", "ended_ns"], unique=False)
        batch_op.create_index("ix_jobs_tenant_id_name", ["tenant_id", "name"], unique=False)
        batch_op.create_index(
            "ix_jobs_tenant_live",
            ["tenant_id", "id"],
            unique=False,
            sqlite_where=sa.text("state IN ('pending', 'starting', 'running')"),
            postgresql_where=sa.text("state IN ('pending', 'starting', 'running')"),
        )

    op.create_table(
        "allocations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("claim_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.String(length=200), server_default="", nullable=False),
        sa.Column("fence", sa.String(length=16), server_default="none", nullable=False),
        sa.Column("attach_socket", sa.String(length=4096), nullable=True),
        sa.Column(
            "work_seq", sa.BigInteger(), nullable=False, comment="when its node last had news of it"
        ),
        sa.Column("granted_ns", sa.BigInteger(), nullable=False),
        sa.Column("released_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["claim_id"], ["claims.id"], name=op.f("fk_allocations_claim_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_allocations_job_id")),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_allocations_node_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allocations")),
        sa.UniqueConstraint("public_id", name=op.f("uq_allocations_public_id")),
    )
    with op.batch_alter_table("allocations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_allocations_job_id"), ["job_id"], unique=False)
        batch_op.create_index(
            "ix_allocations_node_work",
            ["node_id", "work_seq"],
            unique=False,
            sqlite_where=sa.text("state <> 'released'"),
            postgresql_where=sa.text("state <> 'released'"),
        )

    op.create_table(
        "launches",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_launches_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_launches")),
    )
    op.create_table(
        "seats",
        sa.Column(
            "allocation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["allocation_id"], ["allocations.id"], name=op.f("fk_seats_allocation_id")
        ),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=op.f("fk_seats_device_id")),
        sa.PrimaryKeyConstraint("allocation_id", "device_id", name=op.f("pk_seats")),
    )
    with op.batch_alter_table("seats", schema=None) as batch_op:
        batch_op.create_index("ix_seats_device_id", ["device_id"], unique=False)
