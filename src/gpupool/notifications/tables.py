"""Tables of subscriptions, their deliveries, and what an admin allows."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.secrets.columns import mark_secret
from gpupool.store.tables import BigId, metadata
from gpupool.tenancy.tables import tenants, users

subscriptions = sa.Table(
    "subscriptions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False, comment="made it"),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("scope", sa.String(8), nullable=False, comment="mine, tenant, pool"),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("format", sa.String(16), nullable=False),
    sa.Column("address", sa.String(1000), nullable=False, comment="as it may be shown"),
    # The path of a chat's URL lets anybody write there.
    sa.Column(
        "url",
        sa.Text,
        nullable=False,
        server_default="",
        comment="encrypted; empty: a mail address",
        info=mark_secret("public_id"),
    ),
    # A signature needs the secret itself, so no digest of it would do.
    sa.Column(
        "secret",
        sa.Text,
        nullable=False,
        comment="signs messages, encrypted; empty: none",
        info=mark_secret("public_id"),
    ),
    sa.Column("topics", sa.JSON, nullable=False),
    sa.Column("waiting_s", sa.Integer, nullable=False, comment="of topic job-waiting"),
    sa.Column("language", sa.String(2), nullable=False),
    sa.Column("quiet_hours", sa.String(11), nullable=False, comment="22:00-07:00; empty: none"),
    sa.Column("time_zone", sa.String(64), nullable=False),
    sa.Column("digest_s", sa.Integer, nullable=False, comment="0: each message at once"),
    sa.Column("since_seq", sa.BigInteger, nullable=False, comment="events up to here are not its"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("user_id", "name"),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("subscription_id", sa.ForeignKey(subscriptions.c.id), nullable=False),
    sa.Column("cause", sa.String(40), nullable=False, comment="what it is of: event/7, wait/j-1"),
    sa.Column("topic", sa.String(32), nullable=False),
    sa.Column("subject", sa.String(128), nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(8), nullable=False, comment="waiting, sent, dead"),
    sa.Column("due_ns", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("error", sa.String(400), nullable=False, server_default=""),
    sa.Column("ended_ns", sa.BigInteger, nullable=True),
    # A piece of the log that is read twice makes no second delivery.
    sa.UniqueConstraint("subscription_id", "cause"),
    sa.Index("ix_deliveries_state_due_ns", "state", "due_ns"),
)

notification_settings = sa.Table(
    "notification_settings",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("read_seq", sa.BigInteger, nullable=False, comment="of the event log"),
    sa.Column("event_epoch", sa.String(16), nullable=False, comment="the log that was read"),
    sa.Column("hosts", sa.JSON, nullable=False, comment="see wire.notifications.AllowedHost"),
    sa.Column(
        "mail",
        sa.JSON,
        nullable=True,
        comment="see wire.notifications.MailServerIn; password is encrypted",
        info=mark_secret("id", "password"),
    ),
    sa.CheckConstraint("id = 1", name="one_row"),
)
