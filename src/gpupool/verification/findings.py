"""Hold what a verification found: promises, what was measured, and whether each was kept.

The names of the fields stand in verify.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.verification.statistics import RateStretch


@dataclass(frozen=True)
class PromiseFinding:
    """One promise. `kept` is None if it could not be shown here; `measured` then says why."""

    key: str
    title: str
    promised: str
    measured: str
    kept: bool | None
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RateLine:
    """One program's series in a plot."""

    name: str
    series: Sequence[RateStretch]


@dataclass(frozen=True)
class TimeMark:
    """A moment in a plot: something was done."""

    at_ns: int
    text: str


@dataclass(frozen=True)
class RateTimeline:
    """Rates over time. `levels` are what was promised, as parts of a card."""

    title: str
    lines: Sequence[RateLine]
    marks: Sequence[TimeMark] = ()
    levels: Sequence[float] = ()


@dataclass(frozen=True)
class ShareBar:
    """Asked beside measured, both as parts of a card."""

    name: str
    asked: float
    measured: float
    error: float | None


@dataclass
class VerificationFindings:
    """Everything that was found, in order."""

    findings: list[PromiseFinding] = field(default_factory=list)
    timelines: list[RateTimeline] = field(default_factory=list)
    bars: list[ShareBar] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether no promise was broken and at least one was shown."""
        shown = [one.kept for one in self.findings if one.kept is not None]
        return bool(shown) and all(shown)
