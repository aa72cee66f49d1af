"""Table of the quotas of tenants for objects of networks."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants

network_quotas = sa.Table(
    "network_quotas",
    metadata,
    # A kind without a row has no quota: the limits that hold for every network remain.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False, comment="field of NetworkQuotaIn"),
    sa.Column("most", sa.Integer, nullable=False),
    sa.UniqueConstraint("tenant_id", "kind"),
)
