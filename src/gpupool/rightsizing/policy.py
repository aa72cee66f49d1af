"""Decides how much of an advice a policy may put in force: within its bounds, never above the request.

It is pure. What is not known stays as it is. Decision 0122.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpupool.base.units import MIB, WHOLE
from gpupool.rightsizing.advice import (
    DAY_S,
    USUAL_RULES,
    Advice,
    AdviceKind,
    AdviceRules,
    Confidence,
)
from gpupool.rightsizing.runs import RequestedShare

#: A policy acts without a question, and one run with too little pauses its family: it takes more
#: head-room than advice for people. On the trace of the record this saves more, not less.
POLICY_RULES: Final = AdviceRules(percent=99.0, compute_headroom=130, memory_headroom=150)
#: Seconds for which a family keeps what it asks for after a share of it was too small.
PAUSE_SECONDS: Final = 7 * DAY_S
#: Thousandths of its memory from which on a run with less than it asked for is short of it.
_FULL_MEMORY: Final = 980


class AdviceMode(StrEnum):
    """What a policy does with an advice, the weakest first."""

    OFF = "off"
    #: Nothing changes; the job says what it would get.
    PROPOSE = "propose"
    APPLY = "apply"


class AdviceTarget(StrEnum):
    """Which jobs a policy is about."""

    NEW = "new"
    RUNNING = "running"
    BOTH = "both"


_MODES: Final = tuple(AdviceMode)
#: The least trusted first.
CONFIDENCES: Final = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)
_TARGETS: Final = {
    AdviceTarget.NEW: frozenset({AdviceTarget.NEW}),
    AdviceTarget.RUNNING: frozenset({AdviceTarget.RUNNING}),
    AdviceTarget.BOTH: frozenset({AdviceTarget.NEW, AdviceTarget.RUNNING}),
}


@dataclass(frozen=True)
class AdviceBounds:
    """What a policy allows.

    Attributes:
        mode: whether advice is put in force.
        target: of new jobs, of running ones, or of both.
        least_milli: compute of a card below which nothing is cut.
        most_cut_percent: of the request that is cut at most, of compute and of memory.
        least_bytes: memory of a card below which nothing is cut.
        confidence: advice that is trusted less is left.
    """

    mode: AdviceMode = AdviceMode.PROPOSE
    target: AdviceTarget = AdviceTarget.NEW
    least_milli: int = 50
    most_cut_percent: int = 50
    least_bytes: int = 1024 * MIB
    confidence: Confidence = Confidence.HIGH

    def covers(self, target: AdviceTarget) -> bool:
        """Whether it is about new jobs, or about running ones."""
        return target in _TARGETS[self.target]

    def trusts(self, advice: Advice) -> bool:
        """Whether an advice is sure enough."""
        if advice.kind is AdviceKind.UNKNOWN or advice.confidence is None:
            return False
        return CONFIDENCES.index(advice.confidence) >= CONFIDENCES.index(self.confidence)


def tighten_bounds(bounds: Iterable[AdviceBounds]) -> AdviceBounds:
    """Combine bounds: of each part the one that changes least.

    >>> one = AdviceBounds(AdviceMode.APPLY, AdviceTarget.BOTH, 100, 50)
    >>> two = AdviceBounds(AdviceMode.PROPOSE, AdviceTarget.NEW, 50, 30)
    >>> found = tighten_bounds([one, two])
    >>> str(found.mode), str(found.target), found.least_milli, found.most_cut_percent
    ('propose', 'new', 100, 30)
    """
    every = list(bounds)
    shared = frozenset.intersection(*(_TARGETS[one.target] for one in every))
    mode = min((one.mode for one in every), key=_MODES.index)
    target = every[0].target
    if not shared:
        mode = AdviceMode.OFF
    elif len(shared) == 1:
        (target,) = shared
    return AdviceBounds(
        mode,
        target,
        max(one.least_milli for one in every),
        min(one.most_cut_percent for one in every),
        max(one.least_bytes for one in every),
        max((one.confidence for one in every), key=CONFIDENCES.index),
    )


def list_loosened(bounds: AdviceBounds, base: AdviceBounds) -> list[str]:
    """List the parts in which bounds allow more than others, by their names."""
    found = list[str]()
    if _MODES.index(bounds.mode) > _MODES.index(base.mode):
        found.append(f"mode {bounds.mode} beside {base.mode}")
    if bounds.mode is not AdviceMode.OFF and _TARGETS[bounds.target] - _TARGETS[base.target]:
        found.append(f"{bounds.target} jobs beside {base.target}")
    if bounds.least_milli < base.least_milli:
        found.append(
            f"a share of {bounds.least_milli / WHOLE:g} beside {base.least_milli / WHOLE:g}"
        )
    if bounds.most_cut_percent > base.most_cut_percent:
        found.append(f"a cut of {bounds.most_cut_percent} % beside {base.most_cut_percent} %")
    if bounds.least_bytes < base.least_bytes:
        found.append(f"{bounds.least_bytes // MIB} MiB beside {base.least_bytes // MIB} MiB")
    if CONFIDENCES.index(bounds.confidence) < CONFIDENCES.index(base.confidence):
        found.append(f"confidence {bounds.confidence} beside {base.confidence}")
    return found


@dataclass(frozen=True)
class BoundedShare:
    """What each card of a job gets by a policy."""

    gpu_milli: int
    memory_bytes: int


def limit_advice(
    bounds: AdviceBounds, share: RequestedShare, advice: Advice
) -> BoundedShare | None:
    """Return what a job gets instead of its request; None: what it asked for.

    Never more than the request, never less than the bounds allow. A part of which nothing is advised
    stays as it is.
    """
    if bounds.mode is AdviceMode.OFF or not bounds.trusts(advice):
        return None
    kept = 100 - bounds.most_cut_percent
    milli = share.gpu_milli
    if advice.gpu_milli is not None and milli:
        least = max(bounds.least_milli, -(-milli * kept // 100))
        milli = min(milli, max(advice.gpu_milli, least))
    memory = share.memory_bytes
    if advice.memory_bytes is not None:
        least = max(bounds.least_bytes, -(-memory * kept // 100))
        least = -(-max(advice.memory_bytes, least) // MIB) * MIB
        memory = min(memory, least)
    if share.gpu_milli == WHOLE == milli:
        # All of the compute and less memory: no other job could use what is freed.
        return None
    if (milli, memory) == (share.gpu_milli, share.memory_bytes):
        return None
    return BoundedShare(milli, memory)


def is_share_too_small(
    limited_seconds: float, measured_seconds: float, rules: AdviceRules = USUAL_RULES
) -> bool:
    """Whether a run was at its limit for longer than the rules allow.

    Of a run that is younger than `least_seconds` it takes so much of that time: the first seconds of
    a program say little.

    >>> is_share_too_small(20, 60), is_share_too_small(31, 60), is_share_too_small(49, 1000)
    (False, True, False)
    """
    return limited_seconds > rules.limited_part * max(measured_seconds, rules.least_seconds)


def is_memory_too_small(peak_bytes: int | None, memory_bytes: int, asked_bytes: int) -> bool:
    """Whether a run with less memory than it asked for has filled it."""
    if peak_bytes is None or memory_bytes >= asked_bytes:
        return False
    return peak_bytes * 1000 >= memory_bytes * _FULL_MEMORY
