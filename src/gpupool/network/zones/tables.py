"""Table of the zones, as the agent of the pool's machine reports them."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

network_zones = sa.Table(
    "network_zones",
    metadata,
    # No rows where there is zone 0 alone: its state is in `network_engine`.
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False, comment="starting, ready, failed"),
    sa.Column("reason", sa.String(400), nullable=False, comment="why it is in that state"),
    sa.Column("northbound", sa.String(200), nullable=False, comment="where the server connects"),
    sa.Column("daemons", sa.Integer, nullable=False, comment="how many run"),
)
