"""People subscribe to messages about what happens in the pool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False, comment="made it"),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("scope", sa.String(8), nullable=False, comment="mine, tenant, pool"),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("address", sa.String(1000), nullable=False, comment="a URL or a mail address"),
        sa.Column("secret", sa.String(200), nullable=False, comment="signs messages; empty: none"),
        sa.Column("topics", sa.JSON(), nullable=False),
        sa.Column("waiting_s", sa.Integer(), nullable=False, comment="of topic job-waiting"),
        sa.Column("language", sa.String(2), nullable=False),
        sa.Column("quiet_hours", sa.String(11), nullable=False, comment="22:00-07:00; empty: none"),
        sa.Column("time_zone", sa.String(64), nullable=False),
        sa.Column("digest_s", sa.Integer(), nullable=False, comment="0: each message at once"),
        sa.Column(
            "since_seq", sa.BigInteger(), nullable=False, comment="events up to here are not its"
        ),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subscriptions")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_subscriptions_user_id")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_subscriptions_tenant_id")
        ),
        sa.UniqueConstraint("public_id", name=op.f("uq_subscriptions_public_id")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_subscriptions_user_id_name")),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", _big_id(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("subscription_id", sa.Integer(), nullable=False),
        sa.Column(
            "cause", sa.String(40), nullable=False, comment="what it is of: event/7, wait/j-1"
        ),
        sa.Column("topic", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(128), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(8), nullable=False, comment="waiting, sent, dead"),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("error", sa.String(400), nullable=False, server_default=""),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.ForeignKeyConstraint(
            ["subscription_id"], ["subscriptions.id"], name=op.f("fk_deliveries_subscription_id")
        ),
        sa.UniqueConstraint("public_id", name=op.f("uq_deliveries_public_id")),
        sa.UniqueConstraint(
            "subscription_id", "cause", name=op.f("uq_deliveries_subscription_id_cause")
        ),
    )
    op.create_index("ix_deliveries_state_due_ns", "deliveries", ["state", "due_ns"])
    op.create_table(
        "notification_settings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("read_seq", sa.BigInteger(), nullable=False, comment="of the event log"),
        sa.Column("event_epoch", sa.String(16), nullable=False, comment="the log that was read"),
        sa.Column("hosts", sa.JSON(), nullable=False, comment="see wire.notifications.AllowedHost"),
        sa.Column("mail", sa.JSON(), nullable=True, comment="see wire.notifications.MailServerIn"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_settings")),
        sa.CheckConstraint("id = 1", name=op.f("ck_notification_settings_one_row")),
    )


def _big_id() -> sa.types.TypeEngine[int]:
    """Make a 64-bit key that SQLite can number by itself."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
