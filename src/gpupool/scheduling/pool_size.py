"""How much there is in all: what shares of the pool are shares of.

Cards that only are observed are not the pool's; all others count, whatever their state is now, so that a card that
drains changes nobody's share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.quota import GPU, MEMORY, Resource, parts
from gpupool.scheduling.feasible import Kind, kinds_of, model_matches
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus


@dataclass(frozen=True)
class PoolSize:
    """Cards by model and vendor, and the memory of all of them."""

    kinds: Mapping[Kind, int]
    memory_bytes: int

    @cached_property
    def cards(self) -> int:
        return sum(self.kinds.values())

    def of(self, resource: Resource) -> int:
        """Milli-devices or bytes of that resource in the pool; 0 for what is not added up over cards."""
        kind, named = parts(resource)
        if kind == MEMORY:
            return self.memory_bytes
        if kind != GPU:
            return 0
        return WHOLE * sum(count for one, count in self.kinds.items() if named is None or one.is_of(named))

    def matching(self, asked: str | None, vendor: str | None = None) -> tuple[Kind, ...]:
        """What of the pool a claim to that model and vendor may be placed on."""
        named = (one for one in self.kinds if asked is None or model_matches(asked, one.model))
        return tuple(one for one in named if vendor is None or one.vendor == vendor)


def pool_size(cards: Cards) -> PoolSize:
    """What the columns add up to."""
    ours = cards.status != CARD_STATUS.index(CardStatus.NOT_ADOPTED)
    counts = np.bincount(cards.model[ours], minlength=len(cards.models))
    kinds = dict.fromkeys(kinds_of(cards), 0)
    for kind, count in zip(kinds_of(cards), counts.tolist(), strict=True):
        kinds[kind] += count
    return PoolSize(kinds, int(cards.memory_bytes[ours].sum()))
