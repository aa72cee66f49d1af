"""Tables of templates and their versions."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants, users

templates = sa.Table(
    "templates",
    metadata,
    # A shipped template has a row only once an admin changed something of it.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=True, comment="null: of all"),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("default_version", sa.Integer, nullable=True, comment="null: the newest"),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant_id", "name"),
)

template_versions = sa.Table(
    "template_versions",
    metadata,
    # Written once and never changed.
    sa.Column("template_id", sa.ForeignKey(templates.c.id), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("document", sa.JSON, nullable=False, comment="see wire.templates.TemplateIn"),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False, comment="added it"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
)
