"""Whether quotas have room for claims, for many claims at once: what `Tree` says of one, as columns by tenant.

For trees without parts of models: a claim then takes compute and memory, and has one way to be inside its guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpupool.model.quota import GPU, MEMORY, Amount, Resource
from gpupool.scheduling.fairness import smallest
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.snapshot import Bools, Ints

_MOST = 1 << 62


class Asked(NamedTuple):
    """Claims: the number of each one's tenant, whether it may not be preempted, and what it takes at least."""

    tenant: Ints
    firm: Bools
    milli: Ints
    size: Ints

    def of(self, resource: Resource) -> Ints:
        """What each takes of it."""
        return self.milli if resource == GPU else self.size


class QuotaColumns:
    """The quotas of a plan as they are now; tenants go by their numbers in the list."""

    def __init__(self, quotas: Quotas, tenants: Iterable[str]) -> None:
        tree, firm, names = quotas.tree, quotas.tree.firm, tuple(tenants)
        self._outranked = dict[Resource, Ints]()
        self._room = dict[tuple[Resource, bool], Ints]()
        for resource in sorted(tree.resources & {GPU, MEMORY}):
            self._outranked[resource] = _column(tree.outranked_from(name, resource) for name in names)
            rooms = [tree.room(name, resource) for name in names]
            self._room[resource, False] = _column(rooms)
            if firm is not None:
                rooms = [smallest((room, firm.room(name, resource))) for room, name in zip(rooms, names, strict=True)]
            self._room[resource, True] = _column(rooms)

    def outranked(self, asked: Asked) -> Bools:
        """Whether the turn of each comes after those inside what their tenants are guaranteed."""
        found = np.zeros(len(asked.tenant), dtype=np.bool_)
        for resource, since in self._outranked.items():
            found |= asked.of(resource) >= since[asked.tenant]
        return found

    def exhausted(self, asked: Asked) -> Bools:
        """Whether a quota has no room for it."""
        found = np.zeros(len(asked.tenant), dtype=np.bool_)
        for (resource, firm), room in self._room.items():
            amounts = asked.of(resource)
            found |= (asked.firm == firm) & (amounts > 0) & (amounts > room[asked.tenant])
        return found


def _column(limits: Iterable[int | None]) -> Ints:
    return np.array([_MOST if limit is None else limit for limit in limits], dtype=np.int64)


def columns_of(amounts: Iterable[Amount]) -> tuple[Ints, Ints]:
    """Compute and memory of each."""
    each = [(amount.gpu_milli, amount.memory_bytes) for amount in amounts]
    both = np.array(each, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
