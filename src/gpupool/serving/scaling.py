"""How many replicas a load needs. Pure.

The rule is that of the Horizontal Pod Autoscaler of Kubernetes (its documentation, "Algorithm
details"): desired = ceil(current * measured / target), no change within a tolerance, a
stabilisation window for each direction, and careful guesses for replicas that were not measured.
Decision 0119.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Part of the target by which a load may differ without a change; that of Kubernetes.
TOLERANCE: Final = 0.1
#: Replicas that one decision adds at most, or as many as there are; as in Kubernetes.
GROWTH: Final = 4
#: Of a quotient of floats: 3.0000000001 replicas are three.
_EPSILON: Final = 1e-9


@dataclass(frozen=True)
class ScalingRule:
    """The bounds of a service.

    Attributes:
        least: replicas at least; 0: none without requests.
        most: replicas at most.
        target: load of one replica.
        up_ns: more replicas start once they were needed for so long.
        down_ns: replicas end once they were not needed for so long.
    """

    least: int
    most: int
    target: float
    up_ns: int = 0
    down_ns: int = 0


@dataclass(frozen=True)
class LoadMeasure:
    """A load, in the unit of the target.

    Attributes:
        total: of the replicas that were measured together; None: nothing is known.
        measured: how many replicas it is of.
        missing: replicas of which nothing is known.
    """

    total: float | None
    measured: int
    missing: int = 0


@dataclass(frozen=True)
class Recommendation:
    """What a load needed at an instant."""

    at_ns: int
    replicas: int


@dataclass(frozen=True)
class ScalingDecision:
    """How many replicas there should be; `needed` is what the load alone asks for, None: unknown."""

    replicas: int
    needed: int | None


def recommend(rule: ScalingRule, current: int, measure: LoadMeasure) -> int | None:
    """Return the replicas that a load needs, without bounds; None: it is not known."""
    total = measure.total
    if total is None:
        return None
    if current == 0:
        return _round_up(total / rule.target)
    if measure.measured == 0:
        return None
    ratio = total / (rule.target * measure.measured)
    if _is_near(ratio):
        return current
    count = measure.measured + measure.missing
    # A replica without a measure counts as idle where the load is high, and as at its target
    # where it is low: neither direction goes on what is not known.
    assumed = total if ratio > 1 else total + rule.target * measure.missing
    careful = assumed / (rule.target * count)
    if _is_near(careful) or (careful > 1) != (ratio > 1):
        return current
    needed = _round_up(careful * count)
    return max(current, needed) if ratio > 1 else min(current, needed)


def decide(
    rule: ScalingRule,
    current: int,
    measure: LoadMeasure,
    waiting: int,
    history: Sequence[Recommendation],
    now_ns: int,
) -> ScalingDecision:
    """Decide how many replicas a service should have.

    Args:
        rule: Its bounds.
        current: Replicas that it should have until now.
        measure: The load.
        waiting: Requests that wait for a first replica.
        history: What earlier loads needed; it begins with what there was.
        now_ns: The instant.
    """
    needed = recommend(rule, current, measure)
    if waiting and current == 0:
        needed = max(1, needed or 0)
    if needed is None:
        return ScalingDecision(_clamp(rule, current), None)
    wanted = _clamp(rule, min(needed, current + max(GROWTH, current)))
    if wanted > current:
        recent = [one.replicas for one in history if one.at_ns > now_ns - rule.up_ns]
        is_wake = bool(waiting) and current == 0
        wanted = wanted if is_wake else max(current, min([wanted, *recent]))
    elif wanted < current:
        recent = [one.replicas for one in history if one.at_ns > now_ns - rule.down_ns]
        wanted = min(current, max([wanted, *recent]))
    return ScalingDecision(_clamp(rule, wanted), needed)


def trim_history(
    rule: ScalingRule, history: Sequence[Recommendation], now_ns: int
) -> list[Recommendation]:
    """Return the part of a history that later decisions look at."""
    oldest_ns = now_ns - max(rule.up_ns, rule.down_ns)
    return [one for one in history if one.at_ns > oldest_ns]


def _clamp(rule: ScalingRule, replicas: int) -> int:
    return min(rule.most, max(rule.least, replicas))


def _is_near(ratio: float) -> bool:
    return abs(ratio - 1) <= TOLERANCE + _EPSILON


def _round_up(number: float) -> int:
    return math.ceil(number - _EPSILON)
