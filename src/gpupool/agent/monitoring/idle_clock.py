"""Measures for how long the cards of a job have no work of it, by the counters of its fence.

Work is a kernel, a graph or a copy that was submitted or is running, and memory that was allocated
or released. The tenant can write these counters. A false one makes its own job look busy, which is
then not suspended, or idle, which it has agreed to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from gpupool.mechanisms.regions import FenceUsage

_MILLISECONDS: Final = 1000

#: Of each card: launches, GPU time and memory.
_Counters = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class _Rest:
    """Counters of a job, and since when they are the same."""

    counters: _Counters
    since: float


class IdleClock:
    """The idle times of running jobs. Thread-safe.

    Lost with the agent: a new one counts from its first look.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Replaced as a whole for each job, so readers need no lock.
        self._rests: dict[str, _Rest] = {}

    def measure(self, job: str, usage: FenceUsage | None) -> int | None:
        """Return the milliseconds since which nothing has changed; None while it works.

        Args:
            job: The job's id.
            usage: The counters of its fence now; None without a fence.
        """
        if usage is None or _has_work(usage):
            self._rests.pop(job, None)
            return None
        now = self._clock()
        counters = _read_counters(usage)
        known = self._rests.get(job)
        if known is None or known.counters != counters:
            known = _Rest(counters, now)
            self._rests[job] = known
        return int((now - known.since) * _MILLISECONDS)

    def has_worked(self, job: str, usage: FenceUsage | None) -> bool:
        """Whether a job works, or has worked since it was measured last."""
        known = self._rests.get(job)
        if known is None or usage is None or _has_work(usage):
            return True
        return known.counters != _read_counters(usage)

    def restart(self, job: str) -> None:
        """Count the job's idle time from its next look on. Idempotent."""
        self._rests.pop(job, None)

    def keep_only(self, jobs: Collection[str]) -> None:
        """Forget all other jobs."""
        for job in list(self._rests):
            if job not in jobs:
                self._rests.pop(job, None)


def _has_work(usage: FenceUsage) -> bool:
    return any(one.inflight_ns or one.waiters for one in usage.sum_totals().values())


def _read_counters(usage: FenceUsage) -> _Counters:
    totals = usage.sum_totals()
    return tuple(
        (uuid, one.launches, one.gpu_ns, one.committed_bytes) for uuid, one in totals.items()
    )
