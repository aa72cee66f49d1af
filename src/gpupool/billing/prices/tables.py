"""The table of price lists."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata

price_lists = sa.Table(
    "price_lists",
    metadata,
    # A list holds from `from_s` until the next one. It changes only while no sealed month used it.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("name", sa.String(63), nullable=False, unique=True),
    sa.Column("from_s", sa.BigInteger, nullable=False, unique=True, comment="a whole hour"),
    sa.Column("currency", sa.String(8), nullable=False),
    sa.Column("timezone", sa.String(63), nullable=False),
    sa.Column("rule", sa.String(16), nullable=False),
    sa.Column("rates", sa.JSON, nullable=False, comment="as wire.billing.prices.RateIn"),
    sa.Column("preemptible_discount_milli", sa.Integer, nullable=False),
    sa.Column("tax_basis_points", sa.Integer, nullable=False),
    sa.Column(
        "reserved_milli",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="thousandths of the price that reserved, unused cards cost",
    ),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
)
