"""Tables of the engine's machines, of the authorities of their certificates, and of the servers of a
cluster of databases."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.secrets.columns import mark_secret
from gpupool.store.tables import metadata

network_machines = sa.Table(
    "network_machines",
    metadata,
    # One row for each agent that is part of the engine, from its first work to its end.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("agent", sa.String(63), nullable=False, unique=True),
    sa.Column("state", sa.String(16), nullable=False, comment="starting, ready, failed, stopping"),
    sa.Column("reason", sa.String(400), nullable=False, comment="why it is in that state"),
    sa.Column("tunnel", sa.String(45), nullable=False, comment="address of its tunnels"),
    sa.Column("mtu", sa.Integer, nullable=False, comment="largest packet of a network; 0: unknown"),
    sa.Column("datapath", sa.String(16), nullable=False),
    sa.Column("version", sa.String(40), nullable=False, comment="of OVN"),
    sa.Column("northbound", sa.String(200), nullable=False, comment="over TLS; the centre's alone"),
    sa.Column("southbound", sa.String(200), nullable=False, comment="over TLS; the centre's alone"),
    sa.Column("certificate", sa.Text, nullable=False, comment="PEM; empty: none was needed yet"),
    sa.Column(
        "private_key",
        sa.Text,
        nullable=False,
        comment="PEM, encrypted; empty: none was needed yet",
        info=mark_secret("agent"),
    ),
    sa.Column("trusted", sa.Text, nullable=False, comment="PEM of the authorities that it trusts"),
    sa.Column("renew_ns", sa.BigInteger, nullable=False, comment="when its certificate is renewed"),
    sa.Column("work_seq", sa.BigInteger, nullable=False, comment="when it last had news"),
)

network_authorities = sa.Table(
    "network_authorities",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("certificate", sa.Text, nullable=False, comment="PEM"),
    # Its id is not known before the row is written.
    sa.Column(
        "private_key",
        sa.Text,
        nullable=False,
        comment="PEM, encrypted",
        info=mark_secret("created_ns"),
    ),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("expires_ns", sa.BigInteger, nullable=False),
)

network_database_servers = sa.Table(
    "network_database_servers",
    metadata,
    # One row for each server of a cluster of databases; no row: the centre has them alone.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("agent", sa.String(63), nullable=False, unique=True),
    sa.Column("cluster", sa.BigInteger, nullable=False, comment="counts clusters of the pool"),
    sa.Column("state", sa.String(16), nullable=False, comment="joining, joined, lost, leaving"),
    sa.Column("northbound_remote", sa.String(80), nullable=False, comment="for clients"),
    sa.Column("southbound_remote", sa.String(80), nullable=False, comment="for clients"),
    sa.Column("northbound_peer", sa.String(80), nullable=False, comment="for other servers"),
    sa.Column("southbound_peer", sa.String(80), nullable=False, comment="for other servers"),
    sa.Column("northbound_role", sa.String(16), nullable=False, comment="none: does not serve"),
    sa.Column("southbound_role", sa.String(16), nullable=False, comment="none: does not serve"),
    sa.Column("northbound_term", sa.BigInteger, nullable=False),
    sa.Column("southbound_term", sa.BigInteger, nullable=False),
    sa.Column("northbound_members", sa.JSON, nullable=False, comment="peers that it knows"),
    sa.Column("southbound_members", sa.JSON, nullable=False, comment="peers that it knows"),
)
