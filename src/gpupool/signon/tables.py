"""Tables of identity providers, rules, identities, logins under way, and local passwords."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.secrets.columns import mark_secret
from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants, users

providers = sa.Table(
    "signon_providers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    sa.Column("kind", sa.String(16), nullable=False, comment="oidc, ldap"),
    sa.Column("settings", sa.JSON, nullable=False, comment="OidcSettings or LdapSettings"),
    sa.Column(
        "secret",
        sa.Text,
        nullable=False,
        comment="of the client, or of the bind account; encrypted",
        info=mark_secret("name"),
    ),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
)

rules = sa.Table(
    "signon_rules",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False, unique=True, comment="from 1"),
    sa.Column("provider", sa.String(63), nullable=True, comment="null: any"),
    sa.Column("group_name", sa.String(255), nullable=True, comment="null: every person"),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("project", sa.String(63), nullable=True),
    sa.Column("run_as", sa.String(120), nullable=True, comment="template of an account's name"),
)

state = sa.Table(
    "signon_state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("rules_generation", sa.BigInteger, nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)

identities = sa.Table(
    "signon_identities",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("provider", sa.String(63), nullable=False),
    sa.Column("issuer", sa.String(400), nullable=False),
    sa.Column("subject", sa.String(255), nullable=False),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False, unique=True),
    sa.Column("groups", sa.JSON, nullable=False, comment="at the last login"),
    sa.Column("seen_ns", sa.BigInteger, nullable=False, comment="at the last login or sync"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "suspended_ns", sa.BigInteger, nullable=True, comment="user disabled by rules or a sync"
    ),
    sa.UniqueConstraint("issuer", "subject"),
)

attempts = sa.Table(
    "signon_attempts",
    metadata,
    # A login under way. It holds no token of the provider.
    sa.Column("id", sa.String(64), primary_key=True, comment="SHA-256 of state or handle"),
    sa.Column("provider_id", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False, comment="code, device"),
    sa.Column("nonce", sa.String(64), nullable=False),
    sa.Column("verifier", sa.String(128), nullable=False, comment="PKCE"),
    sa.Column("device_code", sa.Text, nullable=False),
    sa.Column("browser_sha256", sa.String(64), nullable=False, comment="of the browser's cookie"),
    sa.Column("return_path", sa.String(400), nullable=False),
    sa.Column("interval_ns", sa.BigInteger, nullable=False, comment="between two polls"),
    sa.Column("polled_ns", sa.BigInteger, nullable=False),
    sa.Column("expires_ns", sa.BigInteger, nullable=False, index=True),
)

logins = sa.Table(
    "signon_logins",
    metadata,
    sa.Column("login_id", sa.String(16), primary_key=True, comment="of the token or session"),
    sa.Column("identity_id", sa.ForeignKey(identities.c.id), nullable=False, index=True),
    sa.Column("session_id", sa.String(255), nullable=True, comment="the provider's `sid`"),
)

passwords = sa.Table(
    "signon_passwords",
    metadata,
    sa.Column("user_id", sa.ForeignKey(users.c.id), primary_key=True),
    sa.Column("password_hash", sa.String(255), nullable=False, comment="Argon2id"),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "totp_secret",
        sa.Text,
        nullable=True,
        comment="base32, encrypted",
        info=mark_secret("user_id"),
    ),
    sa.Column("totp_confirmed", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("totp_step", sa.BigInteger, nullable=False, server_default="0", comment="last used"),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0", comment="in a row"),
    sa.Column("locked_until_ns", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("set_by_id", sa.Integer, nullable=True, comment="user that set it; null: not known"),
)
