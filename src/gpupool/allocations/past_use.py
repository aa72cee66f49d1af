"""What every tenant held before, faded with age: read from the books at the start, then carried along in memory.

So a restart forgets nothing, and a decision reads no history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import sqlalchemy as sa

from gpupool.metering.past import past_use
from gpupool.model.quota import Amount
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.snapshot import Cards, TenantView
from gpupool.scheduling.usage import HALF_LIFE_S, Usage, dominant_micro

_NS = 10**9


class PastUse:
    """`clock` tells the ledger's time in nanoseconds."""

    def __init__(self, clock: Callable[[], int], half_life_s: int = HALF_LIFE_S) -> None:
        self._clock, self._usage = clock, Usage(half_life_s)

    def load(self, connection: sa.Connection) -> None:
        """Begin with what the books say; `note` then tells what is held from now on."""
        now_s = self._clock() / _NS
        self._usage.start(past_use(connection, int(now_s), self._usage.half_life_s), now_s)

    def note(self, tenant: str, held: Amount, cards: Cards | None) -> None:
        """The tenant holds that much from now on, in a pool of these cards."""
        if cards is not None:
            size = pool_size(cards)
            self._usage.hold(tenant, dominant_micro(held, size.cards, size.memory_bytes), self._clock() / _NS)

    def remembered(self, tenants: Mapping[str, TenantView]) -> dict[str, TenantView]:
        """The tenants with their past as it counts now."""
        now_s = self._clock() / _NS
        return {name: replace(view, past=self._usage.past(name, now_s)) for name, view in tenants.items()}
