"""Find what would have shortened waits: replay a pool's history with one change at a time.

The jobs of the log come again at their instants and run as long as they did; only their starts are
decided again. Each change is compared with the replay without a change, on the same jobs, with its
confidence interval (`bootstrap`). Other policies are tried, and quotas of the tenants that waited
most. Docs: docs/how-to/simulate.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpupool.base.errors import HistoryTooShort, UnknownTenant
from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.scheduling.scoring.registry import find_policy
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.simulation.replay.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.replay.parallel import TellProgress, run_all
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.world import SimulatedPool
from gpupool.simulation.studies.bootstrap import (
    ConfidenceInterval,
    WaitDifferences,
    compute_percentile,
)
from gpupool.simulation.studies.study import build_empty_pool
from gpupool.simulation.studies.tune_changes import (
    POLICIES,
    ReplaySummary,
    TriedChange,
    list_policy_changes,
    list_quota_changes,
)
from gpupool.simulation.studies.wait_watcher import WaitWatcher
from gpupool.simulation.traces.trace import TraceNode, WorkloadTrace

#: For all rows of an answer together: each interval is wider, by the number of them (Bonferroni).
LEVEL = 0.95

SEED = 42
#: With less history than this an interval of 95 % says nothing: the 95th percentile of 100 jobs is
#: decided by five of them, and blocks are what is drawn.
LEAST_JOBS = 100
LEAST_BLOCKS = 8
_DAY = 86400 * NANOS_PER_SECOND
_QUARTER = 6 * 3600 * NANOS_PER_SECOND
#: Of the time, for one replay of the history as it was; what does not fit is halved.
_FIRST_PART = 0.2

_LATER = "ask again when more has happened; what waits now:  gpupool whatif"
_LONGER = "give more time:  gpupool whatif --tune --within 1h"

#: From so many days on a block is a day; before, a quarter of one.
_DAYS_FOR_DAYS = 8


@dataclass(frozen=True)
class TuningReplay:
    """A replay to make, until `deadline` (of the monotonic clock)."""

    trace: WorkloadTrace
    nodes: tuple[TraceNode, ...]
    tried: TriedChange
    deadline: float


@dataclass(frozen=True)
class ChangeEffect:
    """A change beside the pool as it is; seconds."""

    words: str
    p50: float
    p95: float
    p50_difference: ConfidenceInterval
    p95_difference: ConfidenceInterval
    evictions: int
    unstarted: int

    @property
    def verdict(self) -> str:
        """`shorter` or `longer` if an interval leaves out 0; `trade-off` if the two disagree."""
        shorter = self.p50_difference.high < 0 or self.p95_difference.high < 0
        longer = self.p50_difference.low > 0 or self.p95_difference.low > 0
        if shorter and longer:
            return "trade-off"
        if shorter:
            return "shorter"
        return "longer" if longer else "no difference seen"


@dataclass(frozen=True)
class TuningAdvice:
    """The effects of all changes, the largest gain of the 95th percentile first."""

    jobs: int
    days: float
    blocks: int
    block_hours: int
    policy: str
    p50: float
    p95: float
    evictions: int
    effects: tuple[ChangeEffect, ...]
    #: Changes for which time or memory was not enough.
    left_out: tuple[str, ...]
    level: float = LEVEL
    #: Of the history, of which the last `days` were replayed.
    whole_days: float = 0.0


class _OutOfTimeError(Exception):
    pass


def advise_changes(
    trace: WorkloadTrace,
    nodes: tuple[TraceNode, ...],
    policy: str,
    told: TellProgress,
    *,
    policies: Sequence[str] = POLICIES,
    quotas: Mapping[str, int] | None = None,
    seconds: float = 600.0,
    workers: int | None = None,
) -> TuningAdvice:
    """Replay the history with each change and compare, within `seconds`. Blocks.

    A history that takes too long to replay is halved, the latest part kept, until it does not.

    Args:
        trace: The history.
        nodes: The pool's nodes.
        policy: The pool's policy.
        told: Called with the part that is done.
        policies: Policies to try.
        quotas: Guaranteed compute to try, in thousandths by tenant.
        seconds: For everything; replays that do not end in time are left out.
        workers: Processes.

    Raises:
        HistoryTooShort: if the history, or the part that can be replayed, says too little.
        UnknownPolicy, UnknownTenant: before anything runs.
    """
    for name in (policy, *policies):
        find_policy(name)
    deadline = time.monotonic() + seconds
    whole_days = _get_span_ns(trace) / _DAY
    trace, before = _replay_unchanged(
        trace, nodes, policy, seconds * _FIRST_PART, lambda part: told(part / 10)
    )
    for name in quotas or {}:
        if name not in before.held_milli:
            raise UnknownTenant(
                f"no job of a tenant {name} ran in this history", hint="gpupool tenant list"
            )
    changes = [
        *list_policy_changes(policy, policies, trace),
        *list_quota_changes(trace, policy, before, quotas or {}),
    ]
    pieces = [TuningReplay(trace, nodes, one, deadline) for one in changes]
    lives = run_all(replay_history, pieces, lambda part: told(0.1 + 0.8 * part), workers)
    compared = list(zip(changes, lives, strict=True))
    return replace(
        _compare_changes(before, compared, policy, trace, told), whole_days=round(whole_days, 2)
    )


def _replay_unchanged(
    trace: WorkloadTrace,
    nodes: tuple[TraceNode, ...],
    policy: str,
    seconds: float,
    tell: TellProgress,
) -> tuple[WorkloadTrace, ReplaySummary]:
    """Replay as much of the end of the history as fits into that time; return it and its waits."""
    _check_history(
        trace, "the history has {} jobs in {} blocks of {} h: advice needs {} in {}", _LATER
    )
    while True:
        before = replay_history(
            TuningReplay(
                trace,
                nodes,
                TriedChange("as it is", policy, trace.quotas),
                time.monotonic() + seconds,
            ),
            tell,
        )
        if before is not None:
            return trace, before
        middle = (trace.arrivals[0].at_ns + trace.arrivals[-1].at_ns) // 2
        latest = tuple(one for one in trace.arrivals if one.at_ns >= middle)
        trace = replace(trace, arrivals=latest)
        _check_history(
            trace,
            "in the time, only {} jobs in {} blocks of {} h can be replayed: advice needs {} in {}",
            _LONGER,
        )


def replay_history(piece: TuningReplay, tell: TellProgress) -> ReplaySummary | None:
    """Replay once; None if it does not end in time, or needs more memory than there is."""
    trace = replace(piece.trace, quotas=piece.tried.quotas)
    world = SimulatedPool(build_empty_pool(trace, piece.nodes, piece.tried.policy))
    watch = WaitWatcher()

    known = Foreknowledge(ONLINE, world.first.expected, WHOLE * len(world.cards))

    def progress(done: int, all_: int) -> None:
        if time.monotonic() > piece.deadline:
            raise _OutOfTimeError
        tell(done / max(1, all_))

    try:
        outcome = Replay(world, [watch], known=known).play_arrivals(
            trace.arrivals, progress=progress
        )
    except (_OutOfTimeError, MemoryError):
        return None
    return watch.summarize_replay(outcome.ended_ns, max(1, _get_span_ns(trace)))


def _compare_changes(
    before: ReplaySummary,
    lives: Sequence[tuple[TriedChange, ReplaySummary | None]],
    policy: str,
    trace: WorkloadTrace,
    told: TellProgress,
) -> TuningAdvice:
    # One order of jobs for all replays: a difference is of the same job before and after.
    jobs = sorted(before.waits_ns)
    block_ns = _choose_block_ns(trace)
    waits = _build_column(before.waits_ns, jobs)
    block = _build_column(before.submitted_ns, jobs) // block_ns
    compared = [(tried, life) for tried, life in lives if life is not None]
    # Bonferroni: with n changes and two percentiles each, 2n intervals hold together with the
    # probability LEVEL if each holds with 1 - (1 - LEVEL) / 2n.
    level = 1 - (1 - LEVEL) / max(1, 2 * len(compared))
    differences = WaitDifferences(waits, block, level=level, seed=SEED)
    effects = []
    for number, (tried, life) in enumerate(compared, 1):
        effects.append(_measure_effect(tried, life, jobs, differences))
        told(0.9 + 0.1 * number / len(compared))
    return TuningAdvice(
        jobs=len(jobs),
        days=round(_get_span_ns(trace) / _DAY, 2),
        blocks=differences.blocks,
        block_hours=block_ns // (3600 * NANOS_PER_SECOND),
        policy=policy,
        p50=compute_percentile(waits, 50) / NANOS_PER_SECOND,
        p95=compute_percentile(waits, 95) / NANOS_PER_SECOND,
        evictions=before.evictions,
        effects=tuple(
            sorted(
                effects, key=lambda one: (one.p95_difference.estimate, one.p50_difference.estimate)
            )
        ),
        left_out=tuple(tried.words for tried, life in lives if life is None),
    )


def _measure_effect(
    tried: TriedChange, life: ReplaySummary, jobs: Sequence[str], differences: WaitDifferences
) -> ChangeEffect:
    after = _build_column(life.waits_ns, jobs)
    return ChangeEffect(
        tried.words,
        compute_percentile(after, 50) / NANOS_PER_SECOND,
        compute_percentile(after, 95) / NANOS_PER_SECOND,
        differences.compute_interval(after, 50),
        differences.compute_interval(after, 95),
        life.evictions,
        life.unstarted,
    )


def _build_column(by_job: Mapping[str, int], jobs: Sequence[str]) -> Ints:
    return np.array([by_job[job] for job in jobs], dtype=np.int64)


def _get_span_ns(trace: WorkloadTrace) -> int:
    return trace.arrivals[-1].at_ns - trace.arrivals[0].at_ns


def _choose_block_ns(trace: WorkloadTrace) -> int:
    return _QUARTER if _get_span_ns(trace) < _DAYS_FOR_DAYS * _DAY else _DAY


def _check_history(trace: WorkloadTrace, words: str, hint: str) -> None:
    block_ns = _choose_block_ns(trace)
    jobs_and_gangs: set[tuple[str, str]] = set()
    all_blocks: set[int] = set()
    for one in trace.arrivals:
        # A gang waits as one, and its wait is one sample.
        jobs_and_gangs.add(("gang", one.gang) if one.gang else ("job", one.job))
        all_blocks.add(one.at_ns // block_ns)
    jobs = len(jobs_and_gangs)
    blocks = len(all_blocks)
    if jobs < LEAST_JOBS or blocks < LEAST_BLOCKS:
        hours = block_ns // (3600 * NANOS_PER_SECOND)
        raise HistoryTooShort(
            words.format(jobs, blocks, hours, LEAST_JOBS, LEAST_BLOCKS), hint=hint
        )
