"""The table of sessions."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True, comment="public half of the cookie"),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False, index=True),
    sa.Column("secret_sha256", sa.String(64), nullable=False),
    sa.Column(
        "token_id",
        sa.ForeignKey("tokens.id"),
        nullable=True,
        index=True,
        comment="token of its login, with which it ends",
    ),
    sa.Column("may_mint", sa.Boolean, nullable=False, comment="may make tokens"),
    sa.Column(
        "through_console",
        sa.Boolean,
        nullable=False,
        comment="opened through the console's own listener, and counts there alone",
    ),
    sa.Column("address", sa.String(64), nullable=False, comment="where its login came from"),
    sa.Column("browser", sa.String(200), nullable=False, comment="User-Agent of its login"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("expires_ns", sa.BigInteger, nullable=False),
    sa.Column("used_ns", sa.BigInteger, nullable=False, comment="exact to a minute"),
    sa.Column("ended_ns", sa.BigInteger, nullable=True),
    sa.Column(
        "unix_uid",
        sa.BigInteger,
        nullable=True,
        comment="account that made the link of its login over the Unix socket",
    ),
)
