"""Table of the OVN that the pool joins."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.secrets.columns import mark_secret
from gpupool.store.tables import metadata

network_external_ovn = sa.Table(
    "network_external_ovn",
    metadata,
    # One row while the pool's networks are in an OVN that is not its own.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("northbound", sa.String(400), nullable=False, comment="servers, with commas"),
    sa.Column("southbound", sa.String(400), nullable=False),
    sa.Column("certificate", sa.Text, nullable=False, comment="PEM; empty: without TLS"),
    sa.Column(
        "private_key",
        sa.Text,
        nullable=False,
        comment="PEM, encrypted; empty: without TLS",
        info=mark_secret("id"),
    ),
    sa.Column("trusted", sa.Text, nullable=False, comment="PEM of authorities"),
    sa.Column(
        "has_rows", sa.Boolean, nullable=False, comment="the pool's are to be deleted at the end"
    ),
    sa.Column("reason", sa.String(400), nullable=False, comment="why they are not deleted yet"),
    sa.CheckConstraint("id = 1", name="one_row"),
)
