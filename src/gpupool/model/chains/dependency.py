"""A job's dependency on the end of another: which ends meet it, and which rule it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: Dependencies of one submission at most.
MAX_DEPENDENCIES: Final = 64


class DependencyCondition(StrEnum):
    """Which end of the other job is awaited."""

    OK = "ok"
    ANY = "any"
    FAIL = "fail"


class DependencyOutcome(StrEnum):
    """How a dependency was decided. It stays so."""

    MET = "met"
    NEVER = "never"


@dataclass(frozen=True)
class Standing:
    """How far a job, an array or a gang has come to its end."""

    is_ended: bool
    #: Whether it ended well. Before the end: False says that it no longer can; None is open.
    is_ok: bool | None
    #: What is said of it: `failed (exit code 1)`.
    text: str = ""


def judge_dependency(
    condition: DependencyCondition, standing: Standing
) -> DependencyOutcome | None:
    """Decide a dependency; None while it is open.

    An array of which one member failed can no longer end well, so `ok` is ruled out at once. The
    other conditions wait for the end of the whole.
    """
    if condition is DependencyCondition.OK and standing.is_ok is False:
        return DependencyOutcome.NEVER
    if not standing.is_ended:
        return None
    if condition is DependencyCondition.ANY:
        return DependencyOutcome.MET
    is_met = bool(standing.is_ok) == (condition is DependencyCondition.OK)
    return DependencyOutcome.MET if is_met else DependencyOutcome.NEVER
