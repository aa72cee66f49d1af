"""What a submission would cost, and what the caller's tenant has spent today, by the price list."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import sqlalchemy as sa

from gpupool.allocations.services.job_preview import PricedRequest
from gpupool.allocations.submission.submission import SubmissionPart
from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.billing.charging.spending import SpendingOwner, read_spending
from gpupool.billing.money import compute_cost
from gpupool.billing.prices.price_list import DatedPriceList, ShareFacts, find_list
from gpupool.billing.prices.service import read_price_lists
from gpupool.fleet.tables import devices
from gpupool.metering.books import HOUR_S, MICRO, WHOLE_MILLI, UsageAmount
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.views.overviews import TodayOut
from gpupool.wire.views.previews import PreviewCost


class PreviewCosts:
    """Reads the price list that is in force. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def estimate_cost(self, request: PricedRequest) -> PreviewCost | None:
        """Estimate what a submission costs by the prices of this hour; None: it has no price.

        On several models it is the dearest: which one it gets is not known yet.
        """
        now_s = self._store.clock.now_ns() // NANOS_PER_SECOND
        with self._store.read() as connection:
            price_list = find_list(read_price_lists(connection), now_s)
            memories = _read_memories(connection) if price_list is not None else {}
        if price_list is None:
            return None
        hourly = Fraction(0)
        for part in request.submission.parts:
            prices = [
                _price_part(price_list, part, model, memories, request, now_s)
                for model in request.models
            ]
            known = [one for one in prices if one is not None]
            if not known:
                return None
            hourly += max(known)
        seconds = request.submission.max_seconds
        return PreviewCost(
            currency=price_list.currency,
            per_hour_micro=round(hourly),
            total_micro=None if seconds is None else round(hourly * seconds / HOUR_S),
        )

    def add_cost(self, principal: Principal, today: TodayOut) -> TodayOut:
        """Add what the caller's tenant has spent today; for an admin nothing is added.

        An admin's scope is the pool: `gpupool report` has its sums.
        """
        since_s = today.since_ns // NANOS_PER_SECOND
        until_s = today.until_ns // NANOS_PER_SECOND
        with self._store.read() as connection:
            price_list = find_list(read_price_lists(connection), until_s)
            if price_list is None or principal.sees_all:
                return today
            owner = SpendingOwner(principal.tenant_id)
            spent = read_spending(connection, owner, since_s, until_s)
        cost = {"currency": price_list.currency, "cost_micro": round(spent.micro)}
        return today.model_copy(update=cost)


def _read_memories(connection: sa.Connection) -> dict[str, int]:
    """Read the smallest memory of a card of each model, in MiB."""
    columns = (devices.c.model, sa.func.min(devices.c.memory_bytes).label("least"))
    query = sa.select(*columns).group_by(devices.c.model)
    return {row.model: row.least // MIB for row in connection.execute(query)}


def _price_part(
    price_list: DatedPriceList,
    part: SubmissionPart,
    model: str,
    memories: Mapping[str, int],
    request: PricedRequest,
    now_s: int,
) -> Fraction | None:
    """Compute what the jobs of a part cost an hour on cards of a model, in micro-units."""
    shape = part.shape
    facts = ShareFacts(model, "", str(shape.sharing), request.submission.preemptible)
    price = price_list.find_price(facts, price_list.get_local_hour(now_s))
    card_mib = memories.get(model, 0)
    if price is None or not card_mib:
        return None
    memory_milli = shape.gpu_milli if shape.memory_milli is None else shape.memory_milli
    held_mib = card_mib * memory_milli // WHOLE_MILLI
    if shape.memory_bytes is not None:
        held_mib = shape.memory_bytes // MIB
    compute_micro = shape.gpu_milli * (MICRO // WHOLE_MILLI)
    dominant = max(compute_micro, held_mib * MICRO // card_mib)
    hour = UsageAmount(shape.gpu_milli * HOUR_S, held_mib * HOUR_S, dominant * HOUR_S)
    charged = price_list.count_charged(hour, card_mib) * shape.count * part.count
    return compute_cost(charged, price, price_list.get_factor_milli(facts))
