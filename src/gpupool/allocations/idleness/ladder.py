"""Which step of an idle ladder is due. Pure: time and activity are arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND


class IdleAct(StrEnum):
    """What a step does to an idle job, the mildest first."""

    WARN = "warn"
    SHRINK = "shrink"
    SUSPEND = "suspend"
    STOP = "stop"

    @property
    def rank(self) -> int:
        """Its place in every ladder."""
        return _RANKS[self]


_RANKS: Final = {act: number for number, act in enumerate(IdleAct)}


@dataclass(frozen=True)
class IdleStep:
    """One step.

    Attributes:
        after_seconds: idle time after which it is due.
        gpu_milli: compute of each card that a shrink leaves; None: it is no shrink.
    """

    act: IdleAct
    after_seconds: int
    gpu_milli: int | None = None


@dataclass(frozen=True)
class IdleLadder:
    """Steps in order, each later than the one before. The first is a warning.

    Attributes:
        window_seconds: a job with activity in the last so many seconds is active.
    """

    window_seconds: int
    steps: tuple[IdleStep, ...]

    def find_next(self, act: IdleAct | None) -> IdleStep | None:
        """Find the step after that one; None: there is none."""
        rank = -1 if act is None else act.rank
        return next((step for step in self.steps if step.act.rank > rank), None)

    def find_last(self, act: IdleAct) -> IdleStep | None:
        """Find the latest step that is not beyond an act."""
        found = [step for step in self.steps if step.act.rank <= act.rank]
        return found[-1] if found else None


@dataclass(frozen=True)
class IdleProgress:
    """How far a job is on its ladder.

    Attributes:
        since_ns: its last activity when that step was taken.
        act: the last step that was taken; None: none.
        at_ns: when.
    """

    since_ns: int
    act: IdleAct | None = None
    at_ns: int = 0

    def has_ended(self, last_ns: int) -> bool:
        """Whether the job was active after the step: its ladder begins anew."""
        return last_ns > self.since_ns


@dataclass(frozen=True)
class DueStep:
    """A step, and when it is due."""

    step: IdleStep
    at_ns: int


def find_due(
    ladder: IdleLadder, last_ns: int, keep_until_ns: int | None, progress: IdleProgress | None
) -> DueStep | None:
    """Find the next step of a job that stays idle; None: it has none left.

    The time between two steps is never shorter than the ladder says, also after a server was away.
    At the end of a keep the first step is due.

    Args:
        ladder: its steps.
        last_ns: the job's last activity.
        keep_until_ns: end of the latest keep; None: it has none.
        progress: how far it is; of an earlier idle time it does not count.
    """
    if progress is not None and progress.has_ended(last_ns):
        progress = None
    taken = None if progress is None else progress.act
    step = ladder.find_next(taken)
    if step is None:
        return None
    due_ns = _count_from(ladder, last_ns, keep_until_ns) + step.after_seconds * NANOS_PER_SECOND
    if progress is not None and taken is not None:
        before = ladder.find_last(taken)
        gap = step.after_seconds - (0 if before is None else before.after_seconds)
        due_ns = max(due_ns, progress.at_ns + gap * NANOS_PER_SECOND)
    return DueStep(step, max(due_ns, keep_until_ns or 0))


def decide(
    ladder: IdleLadder,
    last_ns: int | None,
    keep_until_ns: int | None,
    progress: IdleProgress | None,
    now_ns: int,
) -> IdleStep | None:
    """Decide which step is to be taken now; None: none.

    Args:
        ladder: its steps.
        last_ns: the job's last activity; None: not known, which is not idle.
        keep_until_ns: end of the latest keep; None: it has none.
        progress: how far the job is; None: no step was taken.
        now_ns: the instant up to which the activity is known.
    """
    if last_ns is None or now_ns - last_ns < ladder.window_seconds * NANOS_PER_SECOND:
        return None
    due = find_due(ladder, last_ns, keep_until_ns, progress)
    return due.step if due is not None and due.at_ns <= now_ns else None


def combine_ladders(ladders: Iterable[IdleLadder]) -> IdleLadder:
    """Combine ladders to the strictest: of each act the earliest step, and the smaller share.

    A mild step that would come at or after a harder one is left out.
    """
    every = list(ladders)
    best = dict[IdleAct, IdleStep]()
    for step in (one for ladder in every for one in ladder.steps):
        known = best.get(step.act)
        best[step.act] = step if known is None else _combine_steps(known, step)
    kept = list[IdleStep]()
    for act in reversed(IdleAct):
        strict = best.get(act)
        if strict is not None and (not kept or strict.after_seconds < kept[-1].after_seconds):
            kept.append(strict)
    window = min(ladder.window_seconds for ladder in every)
    return IdleLadder(window, tuple(reversed(kept)))


def _combine_steps(one: IdleStep, other: IdleStep) -> IdleStep:
    milli = one.gpu_milli
    if milli is not None and other.gpu_milli is not None:
        milli = min(milli, other.gpu_milli)
    return IdleStep(one.act, min(one.after_seconds, other.after_seconds), milli)


def _count_from(ladder: IdleLadder, last_ns: int, keep_until_ns: int | None) -> int:
    """Return the instant from which steps count: a keep ends with the first step."""
    if keep_until_ns is None or not ladder.steps:
        return last_ns
    return max(last_ns, keep_until_ns - ladder.steps[0].after_seconds * NANOS_PER_SECOND)
