"""How long jobs run, learnt from those that have ended.

An estimate is used to plan with and never to end a job. The rule, in full: of the last LAST runs of the same tenant and
job name, or where there are fewer than ENOUGH of those, of the same tenant and shape, the run time that QUANTILE of
them did not exceed (nearest rank, so always a run that was seen), and at least FLOOR_SECONDS. Fewer than ENOUGH runs of
either kind: not known. A long run time is a late start shown or a gap left unused; a short one delays who was promised
the cards: hence a high quantile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpupool.model.claim import Shape
from gpupool.scheduling.ends import SECOND

LAST = 50
ENOUGH = 3
QUANTILE = 0.9
FLOOR_SECONDS = 60


class Kind(NamedTuple):
    """Runs that are alike: of one tenant, and of one job name or (name empty) of one shape."""

    tenant: str
    name: str
    shape: Shape | None


@dataclass(frozen=True)
class History:
    """Run times in seconds, oldest first, of at most `kinds` kinds; those seen last are kept."""

    runs: Mapping[Kind, tuple[int, ...]] = field(default_factory=dict)
    kinds: int = 10_000

    def observe(self, tenant: str, name: str, shape: Shape, seconds: int) -> History:
        """With one more run, that ended by itself: what was stopped or evicted says nothing about how long it takes."""
        runs = dict(self.runs)
        for kind in _kinds(tenant, name, shape):
            runs[kind] = (*runs.pop(kind, ()), seconds)[-LAST:]
        return replace(self, runs=dict(list(runs.items())[-self.kinds :]))

    def seconds(self, tenant: str, name: str, shape: Shape) -> int | None:
        """How long such a job is expected to run at most; None where too little is known."""
        for kind in _kinds(tenant, name, shape):
            runs = self.runs.get(kind, ())
            if len(runs) >= ENOUGH:
                return max(FLOOR_SECONDS, quantile(runs, QUANTILE))
        return None


def quantile(values: tuple[int, ...], part: float) -> int:
    """The smallest value that at least `part` of the values do not exceed (nearest rank).

    >>> quantile((10, 20, 30, 40, 50, 60, 70, 80, 90, 100), 0.9), quantile((5,), 0.9)
    (90, 5)
    """
    rank = -(-len(values) * round(part * 1000) // 1000)
    return sorted(values)[max(rank, 1) - 1]


def planned_seconds(limit: int | None, learnt: int | None) -> int | None:
    """What to plan with: the limit, which ends the job, else what was learnt."""
    return learnt if limit is None else limit


def slid_end(started_ns: int, seconds: int, now_ns: int) -> int:
    """The expected end of a job by its estimate; one that runs longer was judged wrongly, so its run time doubles.

    >>> [slid_end(0, 60, now * SECOND) // SECOND for now in (59, 60, 300)]
    [60, 120, 480]
    """
    run = max(seconds, 1) * SECOND
    while started_ns + run <= now_ns:
        run *= 2
    return started_ns + run


def _kinds(tenant: str, name: str, shape: Shape) -> list[Kind]:
    by_shape = Kind(tenant, "", shape)
    return [Kind(tenant, name, None), by_shape] if name else [by_shape]
