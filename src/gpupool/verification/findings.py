"""What a verification found: promises, what was measured of each, and whether it was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.verification.statistics import Stretch


@dataclass(frozen=True)
class Finding:
    """One promise. `kept` is None where it could not be shown here, and `measured` says why."""

    key: str
    title: str
    promised: str
    measured: str
    kept: bool | None
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One program's series in a plot."""

    name: str
    series: Sequence[Stretch]


@dataclass(frozen=True)
class Mark:
    """A moment in a plot: something was done."""

    at_ns: int
    text: str


@dataclass(frozen=True)
class Timeline:
    """Rates over time. `levels` are what was promised, as parts of a card."""

    title: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    levels: Sequence[float] = ()


@dataclass(frozen=True)
class Bar:
    """Asked beside measured, both as parts of a card."""

    name: str
    asked: float
    measured: float
    error: float | None


@dataclass
class Findings:
    """Everything that was found, in order."""

    findings: list[Finding] = field(default_factory=list)
    timelines: list[Timeline] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """No promise was broken, and some were shown."""
        shown = [one.kept for one in self.findings if one.kept is not None]
        return bool(shown) and all(shown)
