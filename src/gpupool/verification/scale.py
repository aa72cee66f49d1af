"""How long the checks of `gpupool verify` run and which error they allow."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.units import NANOS_PER_SECOND


@dataclass(frozen=True)
class CheckScale:
    """How long each step runs, in seconds, and how much doubt it gets.

    `points` is the error that a share may have, in points of a card; `delivered` the least part of
    what was promised; `ratio` the error of the ratio of two.
    """

    quick: bool
    split: float
    mixed: float
    alone: float
    beside: float
    points: float
    delivered: float
    ratio: float
    window_ns: int


FULL = CheckScale(
    quick=False,
    split=10.0,
    mixed=6.0,
    alone=2.5,
    beside=2.5,
    points=1.0,
    delivered=0.97,
    ratio=0.05,
    window_ns=NANOS_PER_SECOND,
)
QUICK = CheckScale(
    quick=True,
    split=2.5,
    mixed=0.0,
    alone=1.0,
    beside=1.0,
    points=3.0,
    delivered=0.9,
    ratio=0.1,
    window_ns=NANOS_PER_SECOND // 2,
)
