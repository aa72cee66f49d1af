"""Advises a family from its runs: a high percentile of compute, the highest memory, head-room.

Autopilot (EuroSys 2020) recommends from moving windows: a percentile of use whose samples lose half
their weight with each half-life, and for memory the maximum, plus a safety margin of 10 to 15 %.
The half-life here is a week instead of its 12 hours: families run daily, services always.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from gpupool.base.units import MIB, WHOLE
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare

DAY_S = 86400


@dataclass(frozen=True)
class AdviceRules:
    """How advice is made; the defaults are those of the product."""

    #: Measured runs below which nothing is advised.
    least_runs: int = 5
    #: Seconds of measured use below which nothing is advised.
    least_seconds: int = 600
    percent: float = 95.0
    #: Hundredths of the percentile.
    compute_headroom: int = 115
    #: Hundredths of the highest memory.
    memory_headroom: int = 110
    half_life_s: int = 7 * DAY_S
    #: Milli-devices to which a share is rounded up.
    step_milli: int = 50
    step_bytes: int = 256 * MIB
    #: Part of the time at its limit from which on a family is undersized.
    limited_part: float = 0.05
    #: Hundredths of its share that an undersized family is advised at least: what it would use
    #: without the limit was not measured, so it grows step by step.
    growth: int = 150


USUAL_RULES = AdviceRules()


class AdviceKind(StrEnum):
    """What a family should do with its request."""

    SHRINK = "shrink"
    GROW = "grow"
    KEEP = "keep"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How far an advice can be trusted."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


#: Runs that a confidence needs at least, and the part of runs that may exceed the advice.
_CONFIDENCE = ((Confidence.HIGH, 20, 0.05), (Confidence.MEDIUM, 10, 0.15))


@dataclass(frozen=True)
class Advice:
    """What each card of a family's jobs should be asked for. None is unknown."""

    kind: AdviceKind
    gpu_milli: int | None = None
    memory_bytes: int | None = None
    confidence: Confidence | None = None
    #: Why nothing is advised; empty where something is.
    reason: str = ""


@dataclass
class FamilyUse:
    """What the runs of a family used, added in the order of their ends."""

    rules: AdviceRules = USUAL_RULES
    runs: int = 0
    measured: int = 0
    #: Decayed to the end of the latest run.
    use: UseHistogram = field(default_factory=UseHistogram)
    #: How many measured runs have which 95th percentile.
    run_milli: Counter[int] = field(default_factory=Counter)
    measured_seconds: float = 0.0
    limited_weight: float = 0.0
    #: The largest share under which a run was at its limit for longer than the rules allow.
    limited_milli: int = 0
    peak_bytes: int | None = None
    share: RequestedShare | None = None
    end_s: int = 0

    def add_run(self, run: MeasuredRun) -> None:
        """Add the next run; its request is the family's from now on."""
        self.runs += 1
        self.share = run.share
        if run.peak_bytes is not None:
            self.peak_bytes = max(self.peak_bytes or 0, run.peak_bytes)
        if not run.is_measured:
            return
        age_s = max(0, run.end_s - self.end_s) if self.measured else 0
        fading = 2.0 ** (-age_s / self.rules.half_life_s)
        self.use.scale(fading)
        self.limited_weight = self.limited_weight * fading + run.limited_seconds
        if run.limited_seconds > run.use.total * self.rules.limited_part:
            self.limited_milli = max(self.limited_milli, run.limited_milli)
        self.use.add_histogram(run.use)
        self.measured += 1
        self.measured_seconds += run.use.total
        self.run_milli[run.use.find_percentile(self.rules.percent) or 0] += 1
        self.end_s = max(self.end_s, run.end_s)

    @property
    def limited_part(self) -> float | None:
        """Return the part of the measured time at its limit; None: nothing was measured."""
        total = self.use.total
        return None if total <= 0 else min(1.0, self.limited_weight / total)


def advise(family: FamilyUse) -> Advice:
    """Advise a family's next request. What is not known is not advised.

    Compute and memory are decided apart: a family may need more of one and less of the other.
    """
    rules = family.rules
    share = family.share
    if share is None or family.measured < rules.least_runs:
        return Advice(
            AdviceKind.UNKNOWN,
            reason=f"measured runs: {family.measured}, at least {rules.least_runs} are needed",
        )
    if family.measured_seconds < rules.least_seconds:
        return Advice(
            AdviceKind.UNKNOWN,
            reason=f"measured: {family.measured_seconds:.0f} s, at least "
            f"{rules.least_seconds} s are needed",
        )
    milli = _advise_compute(family, share)
    memory = _advise_memory(family, share)
    kind = _find_kind(share, milli, memory)
    return Advice(kind, milli, memory, _rate_confidence(family, milli))


def _advise_compute(family: FamilyUse, share: RequestedShare) -> int | None:
    rules = family.rules
    used = family.use.find_percentile(rules.percent)
    # Without a promise there is no request of compute that could be another.
    if used is None or not share.gpu_milli:
        return None
    need = _round_up(-(-used * rules.compute_headroom // 100), rules.step_milli)
    grown = 0
    if (family.limited_part or 0.0) > rules.limited_part:
        # Of the share that was too small: one that has grown since is judged by its own runs.
        grown = _round_up(-(-family.limited_milli * rules.growth // 100), rules.step_milli)
    need = min(WHOLE, max(need, grown, rules.step_milli))
    if need > share.gpu_milli >= max(used, grown):
        # It fits with less head-room than a new request would get: no reason to change it.
        return share.gpu_milli
    return need


def _advise_memory(family: FamilyUse, share: RequestedShare) -> int | None:
    rules = family.rules
    if family.peak_bytes is None:
        return None
    need = -(-family.peak_bytes * rules.memory_headroom // 100)
    need = max(rules.step_bytes, _round_up(need, rules.step_bytes))
    if need > share.memory_bytes >= family.peak_bytes:
        # Frameworks fill what they get: a full share alone says nothing about a need for more.
        return share.memory_bytes
    return need


def _find_kind(share: RequestedShare, milli: int | None, memory: int | None) -> AdviceKind:
    if milli is None and memory is None:
        return AdviceKind.UNKNOWN
    more = (milli or 0) > share.gpu_milli or (memory or 0) > share.memory_bytes
    if more:
        return AdviceKind.GROW
    less_compute = milli is not None and milli < share.gpu_milli
    less_memory = memory is not None and memory < share.memory_bytes
    return AdviceKind.SHRINK if less_compute or less_memory else AdviceKind.KEEP


def _rate_confidence(family: FamilyUse, milli: int | None) -> Confidence:
    if milli is None:
        return Confidence.LOW
    beyond = sum(runs for one, runs in family.run_milli.items() if one > milli)
    for confidence, runs, part in _CONFIDENCE:
        if family.measured >= runs and beyond <= part * family.measured:
            return confidence
    return Confidence.LOW


def _round_up(amount: int, step: int) -> int:
    """Round up to a whole number of steps.

    >>> _round_up(301, 50), _round_up(300, 50)
    (350, 300)
    """
    return -(-amount // step) * step


def fill_unknown(advice: Advice, share: RequestedShare) -> tuple[int, int]:
    """Return the amounts of an advice, and those of the request where nothing is advised."""
    milli = share.gpu_milli if advice.gpu_milli is None else advice.gpu_milli
    memory = share.memory_bytes if advice.memory_bytes is None else advice.memory_bytes
    return milli, memory
