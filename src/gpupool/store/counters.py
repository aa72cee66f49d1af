"""What the server counts about itself since it started: decisions, requests, writes.

Plain thread-safe counters that any room may add to at the cost of a lock; `server.metrics`
renders them. Knows no metrics library and keeps nothing: what must survive a restart is
in the database. One process is one pool, so the instruments below are the process's own.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter as Multiset
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

#: Bounds of buckets, in seconds: of cycles and writes, and of requests, which may be long polls.
FAST_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
SLOW_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: How many kinds of claims are judged for one reading of the metrics: 0.17 ms each.
KINDS_A_READING = 500

#: Above so many remembered kinds, those that no longer wait are forgotten.
KINDS_REMEMBERED = 20_000

#: The reason of kinds that no cycle has judged yet, beyond those that one reading judges.
UNKNOWN = "unknown"


class LabelCounter:
    """Sums by label values; only grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, ...], int] = {}

    def add(self, amount: int = 1, *labels: str) -> None:
        """Add to the sum of these labels. Blocks for a lock alone."""
        with self._lock:
            self._sums[labels] = self._sums.get(labels, 0) + amount

    def read(self) -> Mapping[tuple[str, ...], int]:
        """Return the sums by labels, as of one instant."""
        with self._lock:
            return dict(self._sums)

    def total(self) -> int:
        return sum(self.read().values())

    def keep(self, is_kept: Callable[[tuple[str, ...]], bool]) -> None:
        """Forget the sums of other labels: what they name is gone."""
        with self._lock:
            self._sums = {labels: value for labels, value in self._sums.items() if is_kept(labels)}


class SecondsHistogram:
    """How often a measured number of seconds was up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        place = bisect.bisect_left(self.bounds, seconds)
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self.bounds) + 1))
            counts[place] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def read(self) -> Mapping[tuple[str, ...], tuple[tuple[int, ...], float]]:
        """Return per labels how many fell into each bucket, and their sum.

        The last bucket is above all bounds.
        """
        with self._lock:
            return {
                labels: (tuple(counts), self._sums[labels])
                for labels, counts in self._counts.items()
            }

    def keep(self, is_kept: Callable[[tuple[str, ...]], bool]) -> None:
        """Forget the sums of other labels: what they name is gone."""
        with self._lock:
            for labels in [labels for labels in self._counts if not is_kept(labels)]:
                del self._counts[labels]
                del self._sums[labels]


class JudgedClaim(Protocol):
    """What is read of a scheduler's rejection: this package must not import the scheduler."""

    @property
    def dominant(self) -> Any: ...


class DecisionCounters:
    """What the scheduler decided, and how long it took to."""

    def __init__(self) -> None:
        self.cycles = LabelCounter()
        self.placements = LabelCounter()
        self.conflicts = LabelCounter()
        self.rejections = LabelCounter()
        self.policy_failures = LabelCounter()
        self.seconds = SecondsHistogram(FAST_SECONDS)
        self._lock = threading.Lock()
        self._left: Mapping[Any, JudgedClaim] = {}
        self._reasons: dict[Any, str] = {}
        """By kind of claim, the reason of the latest cycle that judged it."""

    def count_cycle(
        self,
        *,
        seconds: float,
        placements: int,
        judged: Mapping[Any, JudgedClaim],
        left: Mapping[Any, JudgedClaim] | None = None,
    ) -> None:
        """Count one cycle.

        Its time, its placements, the reason of each kind of claim that it judged.

        Args:
            judged: By kind of claim that the cycle judged and left waiting.
            left: By every kind of claim that waits; reading a value that is not in `judged` costs a
                judgement.
        """
        self.cycles.add()
        self.placements.add(placements)
        self.seconds.observe(seconds)
        reasons = {kind: str(rejection.dominant) for kind, rejection in judged.items()}
        for reason, count in Multiset(reasons.values()).items():
            self.rejections.add(count, reason)
        with self._lock:
            self._left = judged if left is None else left
            self._reasons.update(reasons)
            if len(self._reasons) > KINDS_REMEMBERED:
                self._reasons = {
                    kind: self._reasons[kind] for kind in self._left if kind in self._reasons
                }

    def count_conflict(self) -> None:
        """Count a plan that was stale when it was written."""
        self.conflicts.add()

    def policy_failed(self, policy: str) -> None:
        """Count a placement policy that raised an exception and was replaced."""
        self.policy_failures.add(1, policy)

    def count_waiting_kinds(self) -> Mapping[str, int]:
        """Count the kinds of claims that wait since the latest cycle, by reason.

        The reason is that of the latest cycle that judged the kind. A kind that no cycle has judged
        yet is judged now, at most `KINDS_A_READING` of them; the rest is `UNKNOWN`.
        """
        with self._lock:
            left = self._left
            known = dict(self._reasons)
        fresh: dict[Any, str] = {}
        counts: Multiset[str] = Multiset()
        for kind in left:
            if kind not in known and len(fresh) < KINDS_A_READING:
                fresh[kind] = known[kind] = str(left[kind].dominant)
            counts[known.get(kind, UNKNOWN)] += 1
        with self._lock:
            # A cycle may have judged meanwhile: its reasons are newer than ours.
            self._reasons = {**fresh, **self._reasons}
        return dict(counts)


class RequestCounters:
    """What the API was asked, by route template, so that labels stay few."""

    def __init__(self) -> None:
        self.count = LabelCounter()
        self.seconds = SecondsHistogram(SLOW_SECONDS)

    def count_answer(self, route: str, method: str, status: int, seconds: float) -> None:
        self.count.add(1, route, method, str(status))
        self.seconds.observe(seconds, route, method)


def watch_writes(
    engine: sa.Engine, histogram: SecondsHistogram, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Time every transaction of this engine that commits, from its first statement.

    Call once per engine.
    """

    def note_begin(connection: sa.Connection) -> None:
        connection.info["gpupool_began"] = clock()

    def note_commit(connection: sa.Connection) -> None:
        histogram.observe(clock() - connection.info.get("gpupool_began", clock()))

    sa.event.listen(engine, "begin", note_begin)
    sa.event.listen(engine, "commit", note_commit)


#: Findings of the audit of fences, by row id of the tenant and kind.
findings = LabelCounter()
decisions = DecisionCounters()
requests = RequestCounters()
writes = SecondsHistogram(FAST_SECONDS)
