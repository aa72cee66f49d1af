"""Limits of the queue for each user and each tenant, because a waiting entry costs memory.

An entry is a job, a member of a gang, or the rest of an array of any size (decision 0015).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.submission.submission import Submission
from gpupool.base.errors import TooMuchPending
from gpupool.model.tenant import Permission, Principal


@dataclass(frozen=True)
class PendingLimits:
    """Entries of the queue at most.

    Settings of the server; GPUPOOL_MAX_PENDING_PER_USER and _PER_TENANT change them.
    """

    per_user: int = 10_000
    per_tenant: int = 50_000


PENDING_LIMITS = PendingLimits()


class PendingGate:
    """Admits submissions, counting those being written with those that wait. Thread-safe."""

    def __init__(self, cache: LedgerCache, limits: PendingLimits) -> None:
        self.cache = cache
        self._limits = limits
        self._lock = threading.Lock()
        #: Entries that are being written. Without them, requests at the same time would each find
        #: the queue below its limit.
        self._coming: Counter[tuple[str, int] | str] = Counter()

    @contextmanager
    def admit_submission(self, submission: Submission, principal: Principal) -> Iterator[None]:
        """Count a submission while it is written. Pool managers are not limited.

        Raises:
            TooMuchPending: A limit would be exceeded.
        """
        if principal.has_permission(Permission.MANAGE_POOL):
            yield
            return
        entries = len(submission.build_queue_entries(0))
        mine = (submission.tenant, submission.user_id)
        with self._lock:
            self._check(submission, entries)
            self._coming.update({mine: entries, submission.tenant: entries})
        try:
            yield
        finally:
            with self._lock:
                self._coming.subtract({mine: entries, submission.tenant: entries})

    def find_room(self, tenant: str, user_id: int) -> int:
        """Return how many entries a user may still have in the queue."""
        with self._lock:
            mine = self.cache.count_entries(tenant, user_id) + self._coming[tenant, user_id]
        return max(0, self._limits.per_user - mine)

    def _check(self, submission: Submission, entries: int) -> None:
        tenant = submission.tenant
        user = submission.user_id
        bounds = (
            (
                "you have",
                (tenant, user),
                self.cache.count_entries(tenant, user),
                self._limits.per_user,
            ),
            (
                f"tenant {tenant} has",
                tenant,
                self.cache.count_entries(tenant),
                self._limits.per_tenant,
            ),
        )
        for holder, key, waiting, limit in bounds:
            there = waiting + self._coming[key]
            if there + entries > limit:
                raise TooMuchPending(
                    f"{holder} {there} entries in the queue, this submission adds {entries}, "
                    f"the limit is {limit}",
                    hint="submit jobs that are alike as one array (--array N is one entry), wait, "
                    "or stop some; an admin can raise it with GPUPOOL_MAX_PENDING_PER_USER "
                    "or GPUPOOL_MAX_PENDING_PER_TENANT",
                    waiting=there,
                    adds=entries,
                    limit=limit,
                )
