"""Judges advice by the past: each run by what the runs that had ended before it would have advised.

Two simpler methods stand beside it: the request as it was, and the highest use of all runs before.
A run with too few runs before it is not judged: the product advises nothing for it either.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpupool.rightsizing.advice import (
    USUAL_RULES,
    AdviceKind,
    AdviceRules,
    FamilyUse,
    advise,
    fill_unknown,
)
from gpupool.rightsizing.runs import MeasuredRun

HOUR_S = 3600
ADVISED = "advised"
AS_REQUESTED = "as-requested"
HIGHEST = "highest-use"


@dataclass
class MethodResult:
    """What one method would have given the judged runs."""

    method: str
    runs: int = 0
    measured_seconds: float = 0.0
    #: Time in which a run used more than it would have had.
    starved_seconds: float = 0.0
    #: Runs that were starved for more than a twentieth of their time.
    starved_runs: int = 0
    #: Runs that used more memory than they would have had.
    short_of_memory: int = 0
    memory_runs: int = 0
    requested_hours: float = 0.0
    given_hours: float = 0.0

    @property
    def starved_part(self) -> float | None:
        """Return the part of the measured time that was starved; None: nothing was judged."""
        return None if not self.measured_seconds else self.starved_seconds / self.measured_seconds

    @property
    def short_part(self) -> float | None:
        """Return the part of the runs that would have been short of memory; None: none measured."""
        return None if not self.memory_runs else self.short_of_memory / self.memory_runs

    @property
    def saved_hours(self) -> float:
        """Return the card-hours that were asked for and not given; negative: more was given."""
        return self.requested_hours - self.given_hours

    @property
    def saved_part(self) -> float | None:
        """Return the saved part of the requested card-hours; None: none were requested."""
        return None if not self.requested_hours else self.saved_hours / self.requested_hours

    def judge(self, run: MeasuredRun, milli: int, memory_bytes: int) -> None:
        """Count a run as if it had been given so much of each card."""
        seconds = run.use.total
        starved = run.use.count_above(milli)
        self.runs += 1
        self.measured_seconds += seconds
        self.starved_seconds += starved
        self.starved_runs += starved > seconds / 20
        if run.peak_bytes is not None:
            self.memory_runs += 1
            self.short_of_memory += run.peak_bytes > memory_bytes
        hours = seconds / HOUR_S * run.share.cards / 1000
        self.requested_hours += run.share.gpu_milli * hours
        self.given_hours += milli * hours


@dataclass
class Backtest:
    """The results of all methods on the same runs."""

    families: int = 0
    #: Measured runs that were not judged: too few came before them.
    unjudged: int = 0
    methods: Mapping[str, MethodResult] = field(default_factory=dict)


def run_backtest(
    families: Iterable[Sequence[MeasuredRun]], rules: AdviceRules = USUAL_RULES
) -> Backtest:
    """Judge every run of every family for which the runs before it give an advice.

    Only runs with measured compute are judged; what was not measured says nothing.
    """
    results = {name: MethodResult(name) for name in (ADVISED, AS_REQUESTED, HIGHEST)}
    found = Backtest(methods=results)
    for runs in families:
        found.families += 1
        _judge_family(runs, found, rules)
    return found


def _judge_family(runs: Sequence[MeasuredRun], found: Backtest, rules: AdviceRules) -> None:
    before = FamilyUse(rules)
    # Those that have begun: at its begin a run is advised by what had ended, not by its neighbours.
    begun: list[tuple[int, int, MeasuredRun]] = []
    for number, run in enumerate(sorted(runs, key=lambda one: (one.start_s, one.end_s, one.job))):
        while begun and begun[0][0] <= run.start_s:
            before.add_run(heapq.heappop(begun)[2])
        if run.is_measured and run.share.gpu_milli:
            _judge_run(run, before, found)
        heapq.heappush(begun, (run.end_s, number, run))


def _judge_run(run: MeasuredRun, before: FamilyUse, found: Backtest) -> None:
    # What is advised is for the request that the run made, whatever the one before it asked for.
    latest = before.share
    before.share = run.share
    advice = advise(before)
    if advice.kind is AdviceKind.UNKNOWN:
        found.unjudged += 1
    else:
        methods = found.methods
        methods[ADVISED].judge(run, *fill_unknown(advice, run.share))
        methods[AS_REQUESTED].judge(run, run.share.gpu_milli, run.share.memory_bytes)
        peak = run.share.memory_bytes if before.peak_bytes is None else before.peak_bytes
        methods[HIGHEST].judge(run, before.use.highest_milli, peak)
    before.share = latest
