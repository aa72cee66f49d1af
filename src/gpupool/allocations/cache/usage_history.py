"""Past usage of tenants, decayed with age: read at start, then carried along in memory.

So a restart forgets nothing, and a plan reads no history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.past import read_past_use
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling import (
    HALF_LIFE_S,
    CardTable,
    DecayedUsage,
    TenantView,
    compute_dominant_micro,
    measure_pool,
)


class UsageHistory:
    """Past usage by tenant. `clock` returns the ledger's time in nanoseconds."""

    def __init__(self, clock: Callable[[], int], half_life_s: int = HALF_LIFE_S) -> None:
        self._clock = clock
        self._usage = DecayedUsage(half_life_s)

    def load(self, connection: sa.Connection) -> None:
        """Read past usage from the books; `record_holdings` continues it."""
        now_s = self._clock() / NANOS_PER_SECOND
        self._usage.start(read_past_use(connection, int(now_s), self._usage.half_life_s), now_s)

    def record_holdings(self, tenant: str, held: ResourceAmount, cards: CardTable | None) -> None:
        """Note what a tenant holds from now on, in a pool of these cards."""
        # Before the first reading of cards there is no pool to be a part of.
        if cards is not None:
            size = measure_pool(cards)
            self._usage.set_rate(
                tenant,
                compute_dominant_micro(held, size.cards, size.memory_bytes),
                self._clock() / NANOS_PER_SECOND,
            )

    def add_past_usage(self, tenants: Mapping[str, TenantView]) -> dict[str, TenantView]:
        """Return the tenants with their past usage as it counts now."""
        now_s = self._clock() / NANOS_PER_SECOND
        views = dict[str, TenantView]()
        for name, view in tenants.items():
            views[name] = replace(view, past=self._usage.get_past_use(name, now_s))
        return views
