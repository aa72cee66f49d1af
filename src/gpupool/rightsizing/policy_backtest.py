"""Judges a policy by the past: each run with the share that the policy would have given it.

The guard of the policy is judged too: a run at its limit gets back what it asked for, and its family
is left alone for a week. A histogram has no order in time, so use counts as spread evenly over a run.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpupool.rightsizing.advice import AdviceKind, AdviceRules, FamilyUse, advise
from gpupool.rightsizing.backtest import HOUR_S
from gpupool.rightsizing.policy import (
    PAUSE_SECONDS,
    POLICY_RULES,
    AdviceBounds,
    BoundedShare,
    is_memory_too_small,
    is_share_too_small,
    limit_advice,
)
from gpupool.rightsizing.runs import FULL_PER_MILLE, MeasuredRun

#: Seconds after which the pool sees at the latest what a run used: it writes use so often.
LATE_SECONDS: Final = 300


@dataclass
class PolicyResult:
    """What a policy would have done with the runs of some families."""

    families: int = 0
    #: Runs whose compute was measured and requested.
    runs: int = 0
    #: Of them those for which an advice was known.
    judged: int = 0
    changed: int = 0
    #: Changed runs that got back what they asked for.
    returned: int = 0
    #: Changed runs that used more memory than they would have had.
    short_of_memory: int = 0
    memory_runs: int = 0
    #: How often a family was left alone.
    pauses: int = 0
    judged_seconds: float = 0.0
    changed_seconds: float = 0.0
    starved_seconds: float = 0.0
    requested_hours: float = 0.0
    given_hours: float = 0.0

    @property
    def starved_part(self) -> float | None:
        """Return the starved part of the judged time; None: nothing was judged."""
        return None if not self.judged_seconds else self.starved_seconds / self.judged_seconds

    @property
    def starved_part_of_changed(self) -> float | None:
        """Return the starved part of the time of changed runs; None: nothing was changed."""
        return None if not self.changed_seconds else self.starved_seconds / self.changed_seconds

    @property
    def short_part(self) -> float | None:
        """Return the part of the judged runs that met their limit of memory; None: none measured."""
        return None if not self.memory_runs else self.short_of_memory / self.memory_runs

    @property
    def saved_hours(self) -> float:
        """Return the card-hours that were asked for and not given."""
        return self.requested_hours - self.given_hours

    @property
    def saved_part(self) -> float | None:
        """Return the saved part of the requested card-hours of judged runs; None: none."""
        return None if not self.requested_hours else self.saved_hours / self.requested_hours


@dataclass
class _FamilyPast:
    """What was known of a family when a run began."""

    before: FamilyUse
    paused_until_s: int = 0
    begun: list[tuple[int, int, MeasuredRun]] = field(default_factory=list)

    def learn_until(self, start_s: int) -> None:
        while self.begun and self.begun[0][0] <= start_s:
            self.before.add_run(heapq.heappop(self.begun)[2])


def run_policy_backtest(
    families: Iterable[Sequence[MeasuredRun]],
    bounds: AdviceBounds,
    rules: AdviceRules = POLICY_RULES,
) -> PolicyResult:
    """Judge the runs of families by what a policy would have given each at its start."""
    result = PolicyResult()
    for runs in families:
        result.families += 1
        past = _FamilyPast(FamilyUse(rules))
        ordered = sorted(runs, key=lambda one: (one.start_s, one.end_s, one.job))
        for number, run in enumerate(ordered):
            past.learn_until(run.start_s)
            if run.is_measured and run.share.gpu_milli:
                result.runs += 1
                _judge_run(run, past, bounds, result)
            heapq.heappush(past.begun, (run.end_s, number, run))
    return result


def _judge_run(
    run: MeasuredRun, past: _FamilyPast, bounds: AdviceBounds, result: PolicyResult
) -> None:
    before = past.before
    latest = before.share
    before.share = run.share
    advice = advise(before)
    before.share = latest
    if advice.kind is AdviceKind.UNKNOWN:
        return
    seconds = run.use.total
    card_hours = seconds / HOUR_S * run.share.cards / 1000
    result.judged += 1
    result.judged_seconds += seconds
    result.memory_runs += run.peak_bytes is not None
    result.requested_hours += run.share.gpu_milli * card_hours
    given = None
    if run.start_s >= past.paused_until_s and run.share.profile is None:
        given = limit_advice(bounds, run.share, advice)
    if given is None:
        result.given_hours += run.share.gpu_milli * card_hours
        return
    result.changed += 1
    result.changed_seconds += seconds
    part = _apply_guard(run, given, past, result)
    result.starved_seconds += run.use.count_above(given.gpu_milli) * part
    result.given_hours += given.gpu_milli * card_hours * part
    result.given_hours += run.share.gpu_milli * card_hours * (1 - part)


def _apply_guard(
    run: MeasuredRun, given: BoundedShare, past: _FamilyPast, result: PolicyResult
) -> float:
    """Return the part of a run after which it got back what it asked for; 1: it did not."""
    seconds = run.use.total
    limited = 0.0
    if given.gpu_milli < run.share.gpu_milli:
        limited = run.use.count_above(given.gpu_milli * FULL_PER_MILLE // 1000)
    if run.peak_bytes is not None and run.peak_bytes > given.memory_bytes:
        result.short_of_memory += 1
    rules = past.before.rules
    part = 1.0
    if is_share_too_small(limited, seconds, rules):
        needed = rules.limited_part * rules.least_seconds * seconds / limited
        part = min(1.0, (needed + LATE_SECONDS) / seconds)
    elif not is_memory_too_small(run.peak_bytes, given.memory_bytes, run.share.memory_bytes):
        return 1.0
    result.returned += 1
    at_s = run.start_s + round((run.end_s - run.start_s) * part)
    if at_s >= past.paused_until_s:
        result.pauses += 1
    past.paused_until_s = max(past.paused_until_s, at_s + PAUSE_SECONDS)
    return part
