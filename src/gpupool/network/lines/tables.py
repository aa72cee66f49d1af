"""Tables of dedicated lines, and of the prefixes that they translate."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.secrets.columns import mark_secret
from gpupool.store.tables import metadata

line_translations = sa.Table(
    "line_translations",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column(
        "line_id",
        sa.ForeignKey("network_lines.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("is_peer", sa.Boolean, nullable=False, comment="of the company's addresses"),
    sa.Column("inside", sa.String(43), nullable=False, comment="as jobs see it"),
    sa.Column("outside", sa.String(43), nullable=False, comment="as the company sees it"),
)

network_lines = sa.Table(
    "network_lines",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("vlan", sa.Integer, nullable=False, unique=True),
    sa.Column("address", sa.String(18), nullable=False, comment="of the router, with the prefix"),
    sa.Column("speaker", sa.String(15), nullable=False),
    sa.Column("peer", sa.String(15), nullable=False),
    sa.Column("asn", sa.BigInteger, nullable=False),
    sa.Column("peer_asn", sa.BigInteger, nullable=False),
    # The speaker needs the key itself, so no digest of it would do.
    sa.Column(
        "secret_key",
        sa.Text,
        nullable=True,
        comment="TCP MD5 key, encrypted; null: none",
        info=mark_secret("public_id"),
    ),
    sa.Column("bfd", sa.Boolean, nullable=False),
    sa.Column("mtu", sa.Integer, nullable=False),
    sa.Column("prefix_limit", sa.Integer, nullable=False),
    sa.Column("allowed", sa.JSON, nullable=False, comment="prefixes that the peer may announce"),
    sa.Column("announced", sa.JSON, nullable=True, comment="null: every subnet of the network"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    # What the agent reported last.
    sa.Column("state", sa.String(16), nullable=False, comment="off, starting, up, down"),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("learned", sa.JSON, nullable=False),
    sa.Column("refused", sa.JSON, nullable=False, comment="prefixes with reasons, the first ones"),
    sa.Column("refused_count", sa.Integer, nullable=False),
)
