"""Tables of persons and groups as identity providers write them over SCIM."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.signon.tables import identities
from gpupool.store.tables import BigId, metadata
from gpupool.tenancy.tables import users

scim_users = sa.Table(
    "scim_users",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("account_id", sa.ForeignKey(users.c.id), nullable=False, comment="wrote it"),
    sa.Column("external_id", sa.String(255), nullable=True),
    sa.Column("user_name", sa.String(255), nullable=False),
    sa.Column("name_key", sa.String(255), nullable=False, comment="user_name in lower case"),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("body", sa.JSON, nullable=False, comment="other attributes, as RFC 7643 has them"),
    sa.Column(
        "identity_id", sa.ForeignKey(identities.c.id), nullable=True, comment="null: no rights yet"
    ),
    sa.Column("is_due", sa.Boolean, nullable=False, comment="its groups have changed"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("account_id", "name_key"),
    sa.Index("ix_scim_users_account_id_external_id", "account_id", "external_id"),
)

scim_groups = sa.Table(
    "scim_groups",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("account_id", sa.ForeignKey(users.c.id), nullable=False, index=True),
    sa.Column("external_id", sa.String(255), nullable=True),
    sa.Column("display_name", sa.String(255), nullable=False, comment="as rules name it"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
)

scim_members = sa.Table(
    "scim_members",
    metadata,
    sa.Column("group_id", BigId, sa.ForeignKey(scim_groups.c.id), primary_key=True),
    sa.Column("user_id", BigId, sa.ForeignKey(scim_users.c.id), primary_key=True, index=True),
)
