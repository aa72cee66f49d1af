"""The size of the pool, of which quotas and fair shares are parts.

Cards that are only observed do not belong to the pool. All others count, whatever their state, so
that draining a card changes no tenant's share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.quota import GPU, MEMORY, Resource, split_resource
from gpupool.scheduling.filtering.feasibility import CardKind, is_model_match, list_card_kinds
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable


@dataclass(frozen=True)
class PoolSize:
    """Cards by model and vendor, and the memory of all cards."""

    kinds: Mapping[CardKind, int]
    memory_bytes: int

    @cached_property
    def cards(self) -> int:
        """The number of cards."""
        return sum(self.kinds.values())

    def get_total(self, resource: Resource) -> int:
        """Return the milli-devices or bytes of a resource in the pool; 0 for what is not added over
        cards.
        """
        kind, named = split_resource(resource)
        if kind == MEMORY:
            return self.memory_bytes
        if kind != GPU:
            return 0
        return WHOLE * sum(
            count for one, count in self.kinds.items() if named is None or one.is_of(named)
        )

    def list_matching_kinds(
        self, asked: str | None, vendor: str | None = None
    ) -> tuple[CardKind, ...]:
        """Return the kinds of cards on which a claim for that model and vendor may be placed."""
        found = list[CardKind]()
        for one in self.kinds:
            is_named = asked is None or is_model_match(asked, one.model)
            if is_named and (vendor is None or one.vendor == vendor):
                found.append(one)
        return tuple(found)


def measure_pool(cards: CardTable) -> PoolSize:
    """Measure the pool of these cards."""
    ours = cards.status != CARD_STATUS.index(CardStatus.NOT_ADOPTED)
    counts = np.bincount(cards.model[ours], minlength=len(cards.models))
    # Several model numbers may be of one kind (cards differ only in memory), so counts are added
    # up.
    kinds = dict.fromkeys(list_card_kinds(cards), 0)
    for kind, count in zip(list_card_kinds(cards), counts.tolist(), strict=True):
        kinds[kind] += count
    return PoolSize(kinds, int(cards.memory_bytes[ours].sum()))
