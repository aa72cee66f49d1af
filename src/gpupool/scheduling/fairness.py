"""Whose turn it is, and how much a tenant may still take.

The order of the queue: higher priority first, then claims inside their tenant's nominal quota
before those that borrow, then the oldest. What a tenant holds grows while a plan is made, so a
class slides from "inside" to "borrowing" in the middle of it; it never slides back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpupool.model.quota import Amount
from gpupool.scheduling.snapshot import TenantView, Waiting

Rank = tuple[int, bool, int, str]
"""Lower goes first: minus priority, borrowing, submitted, job id (which makes it total)."""


def rank(waiting: Waiting, head: int, borrowing: bool) -> Rank:
    """Where the class stands with its head number `head` next."""
    submitted = waiting.heads_ns[head] if waiting.heads_ns else waiting.oldest_ns
    return (-waiting.priority, borrowing, submitted, waiting.heads[head])


@dataclass(frozen=True)
class Budget:
    """What a tenant may still take before its maximum; None is no limit, below 0 it holds too much."""

    milli: int | None
    size: int | None

    def covers(self, amount: Amount) -> bool:
        return _covers(self.milli, amount.gpu_milli) and _covers(self.size, amount.memory_bytes)


def budget(tenant: TenantView) -> Budget:
    quota, held = tenant.quota, tenant.held
    return Budget(_rest(quota.maximum_milli, held.gpu_milli), _rest(quota.maximum_memory_bytes, held.memory_bytes))


def borrows(tenant: TenantView, amount: Amount) -> bool:
    """Whether taking that much more goes over what the tenant is guaranteed."""
    return not tenant.quota.guarantees(tenant.held + amount)


class Queue:
    """Classes in the order of their turn; one head is taken at a time.

    `borrowing(i)` tells for the class number i whether its next head borrows now; it is asked
    again when the class comes up, because placing others of the tenant may have changed it.
    """

    def __init__(self, waiting: Iterable[Waiting], borrowing: Callable[[int], bool]) -> None:
        self._waiting = tuple(waiting)
        self._borrowing = borrowing
        self._heap = [(rank(w, 0, borrowing(i)), i, 0) for i, w in enumerate(self._waiting) if w.heads]
        heapq.heapify(self._heap)

    def take(self) -> tuple[int, int] | None:
        """(class, head) whose turn it is, or None; the class is out until it is put back."""
        while self._heap:
            stood, i, head = heapq.heappop(self._heap)
            stands = rank(self._waiting[i], head, self._borrowing(i))
            if stands == stood:
                return i, head
            heapq.heappush(self._heap, (stands, i, head))
        return None

    def put_back(self, i: int, head: int) -> None:
        """The class waits again, with this head next; nothing when it has no such head."""
        if head < len(self._waiting[i].heads):
            stands = rank(self._waiting[i], head, self._borrowing(i))
            heapq.heappush(self._heap, (stands, i, head))


def _covers(limit: int | None, amount: int) -> bool:
    return limit is None or amount <= max(limit, 0)


def _rest(maximum: int | None, held: int) -> int | None:
    return None if maximum is None else maximum - held
