"""Quota checks for many claims at once: the answers of `QuotaTree` as columns by tenant.

For trees without limits of models: there a claim takes only compute and memory and has one way to
be inside its guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpupool.model.quota import GPU, MEMORY, Resource, ResourceAmount
from gpupool.scheduling.quota.queue_order import find_smallest
from gpupool.scheduling.quota.tree_node import MOST
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.snapshot.columns import Bools, Ints


class ClaimColumns(NamedTuple):
    """Claims as columns: tenant number, whether it may not be preempted, and its least amounts."""

    tenant: Ints
    firm: Bools
    milli: Ints
    size: Ints

    def get_amounts(self, resource: Resource) -> Ints:
        """Return what each claim takes of the resource."""
        return self.milli if resource == GPU else self.size


class QuotaColumns:
    """The quotas of a plan as they are now; tenants are numbered in the order of the list.

    Of a tenant that has left the pool no claim is asked about; its number stays in the list.
    """

    def __init__(self, quotas: WorkingQuotas, tenants: Iterable[str]) -> None:
        tree = quotas.tree
        firm = quotas.tree.firm
        names = tuple(tenants)
        self._outranked = dict[Resource, Ints]()
        self._room = dict[tuple[Resource, bool], Ints]()
        for resource in sorted(tree.resources & {GPU, MEMORY}):
            outranked = list[int | None]()
            rooms = list[int | None]()
            firm_rooms = list[int | None]()
            for name in names:
                if name not in tree.leaves:
                    outranked.append(None)
                    rooms.append(None)
                    firm_rooms.append(None)
                    continue
                room = tree.get_room(name, resource)
                outranked.append(tree.find_outranked_amount(name, resource))
                rooms.append(room)
                # A non-preemptible claim must find room in both trees (`QuotaView.list_tree_sides`).
                beside = None if firm is None else firm.get_room(name, resource)
                firm_rooms.append(find_smallest((room, beside)))
            self._outranked[resource] = _make_column(outranked)
            self._room[resource, False] = _make_column(rooms)
            self._room[resource, True] = _make_column(firm_rooms)

    def find_outranked(self, asked: ClaimColumns) -> Bools:
        """Return whether the turn of each claim comes after claims inside their guarantees."""
        found = np.zeros(len(asked.tenant), dtype=np.bool_)
        for resource, since in self._outranked.items():
            found |= asked.get_amounts(resource) >= since[asked.tenant]
        return found

    def find_exhausted(self, asked: ClaimColumns) -> Bools:
        """Return whether a quota has no room for each claim."""
        found = np.zeros(len(asked.tenant), dtype=np.bool_)
        for (resource, firm), room in self._room.items():
            amounts = asked.get_amounts(resource)
            # A claim that takes nothing of a resource is never stopped by it, even over a lowered
            # maximum.
            found |= (asked.firm == firm) & (amounts > 0) & (amounts > room[asked.tenant])
        return found


def _make_column(limits: Iterable[int | None]) -> Ints:
    return np.array([MOST if limit is None else limit for limit in limits], dtype=np.int64)


def split_amounts(amounts: Iterable[ResourceAmount]) -> tuple[Ints, Ints]:
    """Split amounts into a column of compute and one of memory."""
    each = [(amount.gpu_milli, amount.memory_bytes) for amount in amounts]
    both = np.array(each, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
