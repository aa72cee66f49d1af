"""How much there is in all: what shares of the pool are shares of.

Cards that only are observed are not the pool's; all others count, whatever their state is now, so that a card that
drains changes nobody's share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.catalogue import vendor_of
from gpupool.model.quota import GPU, MEMORY, Resource, parts
from gpupool.scheduling.feasible import model_matches
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus


@dataclass(frozen=True)
class PoolSize:
    """Cards by model, and the memory of all of them."""

    models: Mapping[str, int]
    memory_bytes: int

    @property
    def cards(self) -> int:
        return sum(self.models.values())

    def of(self, resource: Resource) -> int:
        """Milli-devices or bytes of that resource in the pool; 0 for what is not added up over cards."""
        kind, model = parts(resource)
        if kind == MEMORY:
            return self.memory_bytes
        return sum(self.models[name] for name in self.matching(model)) * WHOLE if kind == GPU else 0

    def matching(self, asked: str | None, vendor: str | None = None) -> tuple[str, ...]:
        """The pool's models that a claim to that model and vendor may be placed on."""
        named = (name for name in self.models if asked is None or _matches(asked, name))
        return tuple(name for name in named if vendor is None or vendor_of(name) in ("", vendor))


def pool_size(cards: Cards) -> PoolSize:
    """What the columns add up to."""
    ours = cards.status != CARD_STATUS.index(CardStatus.NOT_ADOPTED)
    counts = np.bincount(cards.model[ours], minlength=len(cards.models))
    models = dict.fromkeys(cards.models, 0)
    for name, count in zip(cards.models, counts.tolist(), strict=True):
        models[name] += count
    return PoolSize(models, int(cards.memory_bytes[ours].sum()))


_matches = cache(model_matches)
