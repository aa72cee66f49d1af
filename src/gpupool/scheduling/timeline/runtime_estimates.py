"""Estimates of run times, from jobs that have ended.

An estimate is used for planning and never ends a job. The rule: of the last LAST runs of the same
tenant and job name, or with fewer than ENOUGH of those, of the same tenant and shape, take the run
time that QUANTILE of them did not exceed (nearest rank, so always a run that was seen), and at
least FLOOR_SECONDS. With fewer than ENOUGH runs of either kind the run time is unknown. Too long an
estimate shows a late start or leaves a gap unused; too short a one delays the claim that was
promised the cards: hence a high quantile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Shape

#: Runs of one kind that are kept.
LAST = 50
#: Runs of one kind that make an estimate.
ENOUGH = 3
#: Part of the runs that an estimate does not fall below.
QUANTILE = 0.9
#: No estimate is shorter, in seconds.
FLOOR_SECONDS = 60


class RunKind(NamedTuple):
    """Runs that are alike: of one tenant, and of one job name or (name empty) of one shape."""

    tenant: str
    name: str
    shape: Shape | None


@dataclass(frozen=True)
class RuntimeHistory:
    """Run times in seconds, oldest first, of at most `kinds` kinds; the latest kinds are kept."""

    runs: Mapping[RunKind, tuple[int, ...]] = field(default_factory=dict)
    kinds: int = 10_000

    def add_run(self, tenant: str, name: str, shape: Shape, seconds: int) -> RuntimeHistory:
        """Return a history with one more run that ended by itself.

        A stopped or evicted run must not be added: it says nothing about the run time.
        """
        runs = dict(self.runs)
        for kind in _list_kinds(tenant, name, shape):
            # Removed and added again: a dictionary keeps the order of insertion, so the kind that
            # was used last stands last, and the oldest kinds are dropped.
            runs[kind] = (*runs.pop(kind, ()), seconds)[-LAST:]
        return replace(self, runs=dict(list(runs.items())[-self.kinds :]))

    def estimate_seconds(self, tenant: str, name: str, shape: Shape) -> int | None:
        """Estimate how long such a job runs at most; None where too little is known."""
        for kind in _list_kinds(tenant, name, shape):
            runs = self.runs.get(kind, ())
            if len(runs) >= ENOUGH:
                return max(FLOOR_SECONDS, compute_quantile(runs, QUANTILE))
        return None


def compute_quantile(values: tuple[int, ...], part: float) -> int:
    """Return the smallest value that at least `part` of the values do not exceed (nearest rank).

    >>> compute_quantile((10, 20, 30, 40, 50, 60, 70, 80, 90, 100), 0.9)
    90
    >>> compute_quantile((5,), 0.9)
    5
    """
    rank = -(-len(values) * round(part * 1000) // 1000)
    return sorted(values)[max(rank, 1) - 1]


def choose_planned_seconds(limit: int | None, learnt: int | None) -> int | None:
    """Return the seconds to plan with: the limit, which ends the job, else the estimate."""
    return learnt if limit is None else limit


def extend_end(started_ns: int, seconds: int, now_ns: int) -> int:
    """Compute the expected end of a job by its estimate; each time the end passes, the estimate
    doubles.

    >>> [extend_end(0, 60, now * NANOS_PER_SECOND) // NANOS_PER_SECOND for now in (59, 60, 300)]
    [60, 120, 480]
    """
    run = max(seconds, 1) * NANOS_PER_SECOND
    # Doubling bounds the error of a job that runs longer: it is seen to end within twice its run
    # time.
    while started_ns + run <= now_ns:
        run *= 2
    return started_ns + run


def _list_kinds(tenant: str, name: str, shape: Shape) -> list[RunKind]:
    by_shape = RunKind(tenant, "", shape)
    return [RunKind(tenant, name, None), by_shape] if name else [by_shape]
