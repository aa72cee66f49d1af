"""Logins by identity providers, directories and passwords; service accounts and scopes of tokens."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("users", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "user_kind",
                sa.String(16),
                nullable=False,
                server_default="person",
                comment="person, service",
            )
        )
        batch_op.add_column(
            sa.Column("default_project", sa.String(63), nullable=True, comment="null: `default`")
        )
    with op.batch_alter_table("tokens", schema=None, recreate=copied) as batch_op:
        # What SQLite says of a default of no text would be copied with brackets around it.
        batch_op.alter_column("label", existing_type=sa.String(63), server_default="")
        batch_op.add_column(
            sa.Column(
                "scopes",
                sa.String(120),
                nullable=True,
                comment="permissions with spaces; null: all of the role",
            )
        )
    _create_providers()
    _create_rules()
    _create_identities()
    _create_attempts()
    _create_logins()
    _create_passwords()


def _create_providers() -> None:
    op.create_table(
        "signon_providers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False, comment="oidc, ldap"),
        sa.Column("settings", sa.JSON(), nullable=False, comment="OidcSettings or LdapSettings"),
        sa.Column(
            "secret", sa.Text(), nullable=False, comment="of the client, or of the bind account"
        ),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signon_providers")),
        sa.UniqueConstraint("name", name=op.f("uq_signon_providers_name")),
    )


def _create_rules() -> None:
    op.create_table(
        "signon_rules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="from 1"),
        sa.Column("provider", sa.String(63), nullable=True, comment="null: any"),
        sa.Column("group_name", sa.String(255), nullable=True, comment="null: every person"),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(63), nullable=True),
        sa.Column("run_as", sa.String(120), nullable=True, comment="template of an account's name"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signon_rules")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_signon_rules_tenant_id")
        ),
        sa.UniqueConstraint("position", name=op.f("uq_signon_rules_position")),
    )
    op.create_table(
        "signon_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rules_generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signon_state")),
        sa.CheckConstraint("id = 1", name=op.f("ck_signon_state_one_row")),
    )


def _create_identities() -> None:
    op.create_table(
        "signon_identities",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(63), nullable=False),
        sa.Column("issuer", sa.String(400), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False, comment="at the last login"),
        sa.Column("seen_ns", sa.BigInteger(), nullable=False, comment="at the last login or sync"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "suspended_ns",
            sa.BigInteger(),
            nullable=True,
            comment="user disabled by rules or a sync",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signon_identities")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_signon_identities_user_id")
        ),
        sa.UniqueConstraint("user_id", name=op.f("uq_signon_identities_user_id")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_signon_identities_issuer_subject")),
    )


def _create_attempts() -> None:
    op.create_table(
        "signon_attempts",
        sa.Column("id", sa.String(64), nullable=False, comment="SHA-256 of state or handle"),
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False, comment="code, device"),
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("verifier", sa.String(128), nullable=False, comment="PKCE"),
        sa.Column("device_code", sa.Text(), nullable=False),
        sa.Column(
            "browser_sha256", sa.String(64), nullable=False, comment="of the browser's cookie"
        ),
        sa.Column("return_path", sa.String(400), nullable=False),
        sa.Column("interval_ns", sa.BigInteger(), nullable=False, comment="between two polls"),
        sa.Column("polled_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signon_attempts")),
    )
    op.create_index(op.f("ix_signon_attempts_expires_ns"), "signon_attempts", ["expires_ns"])


def _create_logins() -> None:
    op.create_table(
        "signon_logins",
        sa.Column("login_id", sa.String(16), nullable=False, comment="of the token or session"),
        sa.Column("identity_id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.String(255), nullable=True, comment="the provider's `sid`"),
        sa.PrimaryKeyConstraint("login_id", name=op.f("pk_signon_logins")),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["signon_identities.id"], name=op.f("fk_signon_logins_identity_id")
        ),
    )
    op.create_index(op.f("ix_signon_logins_identity_id"), "signon_logins", ["identity_id"])


def _create_passwords() -> None:
    op.create_table(
        "signon_passwords",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("password_hash", sa.String(255), nullable=False, comment="Argon2id"),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.Column("totp_secret", sa.String(64), nullable=True, comment="base32"),
        sa.Column("totp_confirmed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column(
            "totp_step",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="last used",
        ),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False, comment="in a row"),
        sa.Column("locked_until_ns", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_signon_passwords")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_signon_passwords_user_id")
        ),
    )
