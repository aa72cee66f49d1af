"""How much of the queue one user and one tenant may have: what waits costs rows and memory, whoever submitted it.

Counted are entries of the queue: a job, a member of a gang, the rest of an array whatever its size (decision 0015).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpupool.allocations.intake import Submission
from gpupool.allocations.mirror import Mirror
from gpupool.base.errors import TooMuchPending
from gpupool.model.tenant import Permission, Principal


@dataclass(frozen=True)
class PendingLimits:
    """Entries of the queue at most."""

    per_user: int = 10_000
    per_tenant: int = 50_000


PENDING_LIMITS = PendingLimits()


class PendingGate:
    """Counts submissions that are being written together with what waits already. Thread-safe."""

    def __init__(self, mirror: Mirror, limits: PendingLimits) -> None:
        self.mirror, self._limits = mirror, limits
        self._lock = threading.Lock()
        self._coming: Counter[tuple[str, int] | str] = Counter()

    @contextmanager
    def admitted(self, submission: Submission, principal: Principal) -> Iterator[None]:
        """Around the writing of a submission. Raises TooMuchPending; who manages the pool is not limited."""
        if principal.may(Permission.MANAGE_POOL):
            yield
            return
        entries = len(submission.queued(0))
        mine = (submission.tenant, submission.user_id)
        with self._lock:
            self._check(submission, entries)
            self._coming.update({mine: entries, submission.tenant: entries})
        try:
            yield
        finally:
            with self._lock:
                self._coming.subtract({mine: entries, submission.tenant: entries})

    def _check(self, submission: Submission, entries: int) -> None:
        tenant, user = submission.tenant, submission.user_id
        bounds = (
            ("you have", (tenant, user), self.mirror.entries_of(tenant, user), self._limits.per_user),
            (f"tenant {tenant} has", tenant, self.mirror.entries_of(tenant), self._limits.per_tenant),
        )
        for holder, key, waiting, limit in bounds:
            there = waiting + self._coming[key]
            if there + entries > limit:
                raise TooMuchPending(
                    f"{holder} {there} entries in the queue, this submission adds {entries}, the limit is {limit}",
                    hint="submit jobs that are alike as one array (--array N is one entry), wait, or stop some;"
                    " an admin can raise it with GPUPOOL_MAX_PENDING_PER_USER or GPUPOOL_MAX_PENDING_PER_TENANT",
                    waiting=there,
                    adds=entries,
                    limit=limit,
                )
