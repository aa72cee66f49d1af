"""Secrets have room to be encrypted, a subscription's URL is apart from what is shown of it, and a
promise remembers what was last told of its start.

The server encrypts what is there once it has started: a revision has no key.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op

revision = "0067"
down_revision = "0066"
branch_labels = None
depends_on = None

_SUBSCRIPTIONS = sa.table(
    "subscriptions",
    sa.column("id", sa.Integer),
    sa.column("format", sa.String),
    sa.column("address", sa.String),
    sa.column("url", sa.Text),
)


def upgrade() -> None:
    connection = op.get_bind()
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        # The pages of the tables that are copied have secrets in clear.
        connection.exec_driver_sql("PRAGMA secure_delete=ON")
    op.create_table(
        "secret_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False, comment="encrypts what is written"),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_secret_state")),
        sa.CheckConstraint("id = 1", name=op.f("ck_secret_state_one_row")),
    )
    copied: Literal["always", "never"] = "always" if is_sqlite else "never"
    with op.batch_alter_table("subscriptions", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "address",
            existing_type=sa.String(1000),
            existing_nullable=False,
            comment="as it may be shown",
        )
        batch_op.add_column(
            sa.Column(
                "url",
                sa.Text(),
                nullable=False,
                server_default="",
                comment="encrypted; empty: a mail address",
            )
        )
        batch_op.alter_column(
            "secret",
            existing_type=sa.String(200),
            type_=sa.Text(),
            existing_nullable=False,
            comment="signs messages, encrypted; empty: none",
        )
    with op.batch_alter_table("notification_settings", schema=None) as batch_op:
        batch_op.alter_column(
            "mail",
            existing_type=sa.JSON(),
            existing_nullable=True,
            comment="see wire.notifications.MailServerIn; password is encrypted",
        )
    with op.batch_alter_table("signon_providers", schema=None) as batch_op:
        batch_op.alter_column(
            "secret",
            existing_type=sa.Text(),
            existing_nullable=False,
            comment="of the client, or of the bind account; encrypted",
        )
    with op.batch_alter_table("signon_passwords", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "totp_secret",
            existing_type=sa.String(64),
            type_=sa.Text(),
            existing_nullable=True,
            comment="base32, encrypted",
        )
    with op.batch_alter_table("promises", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "notice_ns",
                sa.BigInteger(),
                nullable=True,
                comment="start in the last notice; null: at_ns",
            )
        )
        batch_op.add_column(
            sa.Column(
                "moved_ns", sa.BigInteger(), nullable=True, comment="when a move was last told"
            )
        )
    _divide_addresses(connection)


def _divide_addresses(connection: sa.Connection) -> None:
    """Keep of an address what may be shown; its whole is a secret."""
    query = sa.select(_SUBSCRIPTIONS).where(_SUBSCRIPTIONS.c.format != "mail")
    for row in connection.execute(query).all():
        parts = urlsplit(row.address)
        values = {"url": row.address, "address": f"{parts.scheme}://{parts.netloc}/…"}
        mine = _SUBSCRIPTIONS.c.id == row.id
        connection.execute(_SUBSCRIPTIONS.update().where(mine).values(**values))
