"""Keys of dedicated lines, of an existing OVN and of the engine's machines have room to be encrypted,
and the state of secrets lists the columns that are.

The server encrypts what is there once it has started: a revision has no key.
"""

from __future__ import annotations

import json
from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0071"
down_revision = "0070"
branch_labels = None
depends_on = None

#: What revision 0067 and its server encrypt.
_COVERED = (
    "notification_settings/mail",
    "signon_passwords/totp_secret",
    "signon_providers/secret",
    "subscriptions/secret",
    "subscriptions/url",
)
#: Tables with a private key, and what their column is from now on.
_KEYS = {
    "network_external_ovn": "PEM, encrypted; empty: without TLS",
    "network_machines": "PEM, encrypted; empty: none was needed yet",
    "network_authorities": "PEM, encrypted",
}


def upgrade() -> None:
    connection = op.get_bind()
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        # The pages of the tables that are copied have keys in clear.
        connection.exec_driver_sql("PRAGMA secure_delete=ON")
    with op.batch_alter_table("secret_state", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column(
                "covered",
                sa.JSON(),
                nullable=False,
                server_default=sa.text(f"'{json.dumps(_COVERED)}'"),
                comment="table/column of what is encrypted",
            )
        )
    with op.batch_alter_table("secret_state", schema=None) as batch_op:
        batch_op.alter_column(
            "covered",
            existing_type=sa.JSON(),
            existing_nullable=False,
            existing_comment="table/column of what is encrypted",
            server_default=None,
        )
    copied: Literal["always", "never"] = "always" if is_sqlite else "never"
    with op.batch_alter_table("network_lines", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "secret_key",
            existing_type=sa.String(80),
            type_=sa.Text(),
            existing_nullable=True,
            comment="TCP MD5 key, encrypted; null: none",
        )
    for table, comment in _KEYS.items():
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.alter_column(
                "private_key",
                existing_type=sa.Text(),
                existing_nullable=False,
                comment=comment,
            )
