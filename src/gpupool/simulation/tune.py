"""What would have shortened waits: a pool's own history replayed as it was, and with one thing changed at a time.

The jobs of the log come again at their instants and run as long as they did; only who starts when is decided anew. Each
change is compared with the replay without any, on the same jobs, and told with its confidence (`bootstrap`). Other
policies are tried, and quotas of those who waited most. Docs: docs/how-to/simulate.md.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpupool.base.errors import HistoryTooShort, UnknownTenant
from gpupool.base.units import WHOLE
from gpupool.model.claim import Rejection
from gpupool.scheduling.policies import named
from gpupool.scheduling.snapshot import Eviction, Ints, Placement
from gpupool.simulation.bootstrap import Differences, Interval, percentile
from gpupool.simulation.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.parallel import Tell, run_all
from gpupool.simulation.replay import Replay
from gpupool.simulation.study import beginning
from gpupool.simulation.trace import NS, Node, Trace
from gpupool.simulation.tune_changes import POLICIES, Lived, Tried, other_policies, other_quotas
from gpupool.simulation.world import Job, World

LEVEL = 0.95
"""For all rows of an answer together: each interval is wider, by the number of them (Bonferroni)."""

SEED = 42
LEAST_JOBS = 100
LEAST_BLOCKS = 8
_DAY, _QUARTER = 86400 * NS, 6 * 3600 * NS
_FIRST_PART = 0.2
"""Of the time, for one replay of the history as it was; what does not fit is halved."""

_LATER = "ask again when more has happened; what waits now:  gpupool whatif"
_LONGER = "give more time:  gpupool whatif --tune --within 1h"

_DAYS_FOR_DAYS = 8
"""From so many days on a block is a day; before, a quarter of one."""


@dataclass(frozen=True)
class Piece:
    """A replay to make, until `deadline` (of the monotonic clock)."""

    trace: Trace
    nodes: tuple[Node, ...]
    tried: Tried
    deadline: float


@dataclass(frozen=True)
class Effect:
    """A change beside the pool as it is; seconds."""

    words: str
    p50: float
    p95: float
    p50_difference: Interval
    p95_difference: Interval
    evictions: int
    unstarted: int

    @property
    def verdict(self) -> str:
        """`shorter` or `longer` where an interval leaves out 0; `trade-off` where the two disagree."""
        both = (self.p50_difference, self.p95_difference)
        shorter, longer = any(one.high < 0 for one in both), any(one.low > 0 for one in both)
        if shorter and longer:
            return "trade-off"
        return "shorter" if shorter else "longer" if longer else "no difference seen"


@dataclass(frozen=True)
class Advice:
    """What was found; effects with the largest gain of the 95th percentile first."""

    jobs: int
    days: float
    blocks: int
    block_hours: int
    policy: str
    p50: float
    p95: float
    evictions: int
    effects: tuple[Effect, ...]
    left_out: tuple[str, ...]
    """Changes for which time or memory was not enough."""
    level: float = LEVEL
    whole_days: float = 0.0
    """Of the history, of which the last `days` were replayed."""


class _OutOfTimeError(Exception):
    pass


def tune(
    trace: Trace,
    nodes: tuple[Node, ...],
    policy: str,
    told: Tell,
    *,
    policies: Sequence[str] = POLICIES,
    quotas: Mapping[str, int] | None = None,
    seconds: float = 600.0,
    workers: int | None = None,
) -> Advice:
    """Replay and compare, within so many seconds. `quotas`: more guaranteed compute to try, by tenant.

    A history that takes too long to replay is halved, the latest part kept, until it does not. Raises HistoryTooShort
    where it says too little then; UnknownPolicy, UnknownTenant.
    """
    for name in (policy, *policies):
        named(name)
    deadline = time.monotonic() + seconds
    whole_days = _span(trace) / _DAY
    trace, before = _as_it_is(trace, nodes, policy, seconds * _FIRST_PART, lambda part: told(part / 10))
    for name in quotas or {}:
        if name not in before.held_milli:
            raise UnknownTenant(f"no job of a tenant {name} ran in this history", hint="gpupool tenant list")
    changes = [*other_policies(policy, policies, trace), *other_quotas(trace, policy, before, quotas or {})]
    pieces = [Piece(trace, nodes, one, deadline) for one in changes]
    lives = run_all(lived, pieces, lambda part: told(0.1 + 0.8 * part), workers)
    compared = list(zip(changes, lives, strict=True))
    return replace(_compared(before, compared, policy, trace, told), whole_days=round(whole_days, 2))


def _as_it_is(trace: Trace, nodes: tuple[Node, ...], policy: str, seconds: float, tell: Tell) -> tuple[Trace, Lived]:
    """As much of the end of the history as can be replayed in that time, and what came of it."""
    _check(trace, "the history has {} jobs in {} blocks of {} h: advice needs {} in {}", _LATER)
    while True:
        before = lived(Piece(trace, nodes, Tried("as it is", policy, trace.quotas), time.monotonic() + seconds), tell)
        if before is not None:
            return trace, before
        middle = (trace.arrivals[0].at_ns + trace.arrivals[-1].at_ns) // 2
        latest = tuple(one for one in trace.arrivals if one.at_ns >= middle)
        trace = replace(trace, arrivals=latest)
        _check(trace, "in the time, only {} jobs in {} blocks of {} h can be replayed: advice needs {} in {}", _LONGER)


def lived(piece: Piece, tell: Tell) -> Lived | None:
    """One replay; None where it does not end in time, or needs more memory than there is."""
    trace = replace(piece.trace, quotas=piece.tried.quotas)
    world, watch = World(beginning(trace, piece.nodes, piece.tried.policy)), _Watch()

    known = Foreknowledge(ONLINE, world.first.expected, WHOLE * len(world.cards))

    def progress(done: int, all_: int) -> None:
        if time.monotonic() > piece.deadline:
            raise _OutOfTimeError
        tell(done / max(1, all_))

    try:
        outcome = Replay(world, [watch], known=known).run(trace.arrivals, progress=progress)
    except (_OutOfTimeError, MemoryError):
        return None
    return watch.lived(outcome.ended_ns, max(1, _span(trace)))


def _compared(
    before: Lived,
    lives: Sequence[tuple[Tried, Lived | None]],
    policy: str,
    trace: Trace,
    told: Tell,
) -> Advice:
    jobs, block_ns = sorted(before.waits_ns), _block_ns(trace)
    waits = _column(before.waits_ns, jobs)
    block = _column(before.submitted_ns, jobs) // block_ns
    compared = [(tried, life) for tried, life in lives if life is not None]
    level = 1 - (1 - LEVEL) / max(1, 2 * len(compared))
    differences = Differences(waits, block, level=level, seed=SEED)
    effects = []
    for number, (tried, life) in enumerate(compared, 1):
        effects.append(_effect(tried, life, jobs, differences))
        told(0.9 + 0.1 * number / len(compared))
    return Advice(
        jobs=len(jobs),
        days=round(_span(trace) / _DAY, 2),
        blocks=differences.blocks,
        block_hours=block_ns // (3600 * NS),
        policy=policy,
        p50=percentile(waits, 50) / NS,
        p95=percentile(waits, 95) / NS,
        evictions=before.evictions,
        effects=tuple(sorted(effects, key=lambda one: (one.p95_difference.estimate, one.p50_difference.estimate))),
        left_out=tuple(tried.words for tried, life in lives if life is None),
    )


def _effect(tried: Tried, life: Lived, jobs: Sequence[str], differences: Differences) -> Effect:
    after = _column(life.waits_ns, jobs)
    return Effect(
        tried.words,
        percentile(after, 50) / NS,
        percentile(after, 95) / NS,
        differences.of(after, 50),
        differences.of(after, 95),
        life.evictions,
        life.unstarted,
    )


def _column(by_job: Mapping[str, int], jobs: Sequence[str]) -> Ints:
    return np.array([by_job[job] for job in jobs], dtype=np.int64)


def _span(trace: Trace) -> int:
    return trace.arrivals[-1].at_ns - trace.arrivals[0].at_ns


def _block_ns(trace: Trace) -> int:
    return _QUARTER if _span(trace) < _DAYS_FOR_DAYS * _DAY else _DAY


def _check(trace: Trace, words: str, hint: str) -> None:
    block_ns = _block_ns(trace)
    gangs = {one.gang for one in trace.arrivals if one.gang}
    jobs = len(gangs) + sum(1 for one in trace.arrivals if not one.gang)
    blocks = len({one.at_ns // block_ns for one in trace.arrivals})
    if jobs < LEAST_JOBS or blocks < LEAST_BLOCKS:
        hours = block_ns // (3600 * NS)
        raise HistoryTooShort(words.format(jobs, blocks, hours, LEAST_JOBS, LEAST_BLOCKS), hint=hint)


class _Watch:
    """Waits of all jobs, gangs once, and what each tenant held while work came."""

    def __init__(self) -> None:
        self._waits: dict[str, int] = {}
        self._submitted: dict[str, int] = {}
        self._tenant: dict[str, str] = {}
        self._held: dict[str, int] = defaultdict(int)
        self._evictions = 0

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        """What is held is added up when it is given back."""

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        if refused is None:
            for job in jobs:
                if job.counts:
                    self._submitted[job.id] = job.submitted_ns
                    self._tenant[job.id] = job.key.tenant

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        if job.counts:
            self._waits.setdefault(job.id, now_ns - job.submitted_ns)

    def ended(self, job: Job, now_ns: int) -> None:
        self._add(job, now_ns)

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self._evictions += 1
        self._add(job, now_ns)

    def _add(self, job: Job, now_ns: int) -> None:
        assert job.run is not None
        self._held[job.key.tenant] += sum(job.run.milli) * (now_ns - job.run.started_ns)

    def lived(self, ended_ns: int, span_ns: int) -> Lived:
        waits = {job: self._waits.get(job, ended_ns - at) for job, at in self._submitted.items()}
        return Lived(
            waits,
            self._submitted,
            self._tenant,
            {name: held // span_ns for name, held in self._held.items()},
            len(self._submitted) - len(self._waits),
            self._evictions,
        )
