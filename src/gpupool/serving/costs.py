"""What the replicas of services hold now, and what that costs an hour by the price lists. Blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.idleness.costs import SharePrices
from gpupool.allocations.store.tables import allocations, claims, jobs, seats
from gpupool.billing.prices.price_list import ShareFacts
from gpupool.billing.prices.service import read_price_lists
from gpupool.fleet.tables import devices
from gpupool.serving.rows import IS_OVER
from gpupool.serving.tables import service_replicas

_SEATED = (
    sa.select(
        service_replicas.c.service_id,
        seats.c.gpu_milli,
        seats.c.memory_bytes,
        claims.c.sharing,
        claims.c.preemptible,
        devices.c.model,
        devices.c.memory_bytes.label("card_bytes"),
    )
    .join(jobs, jobs.c.public_id == service_replicas.c.job)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(seats, seats.c.allocation_id == allocations.c.id)
    .join(devices, devices.c.id == seats.c.device_id)
    .where(
        sa.not_(IS_OVER),
        # Word for word the condition of the partial index on held allocations.
        allocations.c.state != sa.literal_column("'released'"),
    )
)


@dataclass(frozen=True)
class ServiceHolding:
    """What the replicas of a service hold, those that end too.

    Attributes:
        gpu_milli: of all their cards together.
        cost_micro: micro-units of the currency for an hour; None: a part has no price.
        currency: empty without a price list.
    """

    gpu_milli: int
    cost_micro: int | None
    currency: str


def read_holdings(
    connection: sa.Connection, services: Iterable[int], now_ns: int
) -> dict[int, ServiceHolding]:
    """Read what services hold at an instant, by their row ids."""
    by_service: dict[int, list[Any]] = {service: [] for service in services}
    if not by_service:
        return {}
    prices = SharePrices(read_price_lists(connection))
    for row in connection.execute(_SEATED.where(service_replicas.c.service_id.in_(by_service))):
        by_service[row.service_id].append(row)
    return {service: _sum_seats(rows, prices, now_ns) for service, rows in by_service.items()}


def _sum_seats(rows: list[Any], prices: SharePrices, now_ns: int) -> ServiceHolding:
    currency = prices.find_currency(now_ns)
    # Without a price list it is not known what nothing costs either.
    total: Fraction | None = Fraction(0) if currency else None
    for row in rows:
        facts = ShareFacts(row.model, "", row.sharing, row.preemptible)
        one = prices.price_share(facts, row.gpu_milli, row.memory_bytes, row.card_bytes, now_ns)
        total = None if total is None or one is None else total + one
    cost = None if total is None else round(total)
    return ServiceHolding(sum(row.gpu_milli for row in rows), cost, currency)
