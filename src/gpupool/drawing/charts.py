"""Whole plots: lines over a common axis, and bars in groups. Numbers and names in, a picture out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpupool.drawing.svg import (
    BOTTOM,
    COLORS,
    HEIGHT,
    INNER,
    LEFT,
    bar,
    grid,
    height_of,
    path,
    picture,
    text,
)

_LEGEND = 18
_PER_ROW = 5


@dataclass(frozen=True)
class Series:
    """One line of a plot, or one colour of its bars; None where nothing is known."""

    name: str
    values: Sequence[float | None]


def lines(title: str, at: Sequence[Sequence[float]], series: Sequence[Series], across: str, top: float = 0) -> str:
    """Each series over its own `at` (same length), the axis from the first to the last of all; `across` is its unit.

    One series that is named as the plot has no legend.
    """
    known = [point for points in at for point in points]
    if not known or not series:
        return ""
    begin, end = min(known), max(known)
    highest = top or _round_up(max((v for one in series for v in one.values if v is not None), default=1.0))
    scale = INNER / ((end - begin) or 1.0)
    parts = [*grid(highest, _levels(highest)), *_axis(begin, end, scale, across)]
    for number, (points, one) in enumerate(zip(at, series, strict=True)):
        for piece in _pieces(points, one.values):
            drawn = [(LEFT + (x - begin) * scale, height_of(min(y, highest), highest)) for x, y in piece]
            parts.append(path(drawn, COLORS[number % len(COLORS)]))
    names = [] if [one.name for one in series] == [title] else [one.name for one in series]
    return picture([*parts, *_legend(names)], title, _with_legend(len(names)))


def bars(title: str, groups: Sequence[str], series: Sequence[Series], unit: str = "") -> str:
    """Bars in groups, one of each series in a group; unknown has no bar but `--`."""
    if not groups or not series:
        return ""
    highest = _round_up(max((v for one in series for v in one.values if v is not None), default=1.0))
    parts = list(grid(highest, _levels(highest)))
    slot = INNER / len(groups)
    width = min(40.0, slot * 0.8 / len(series))
    for place, group in enumerate(groups):
        left = LEFT + slot * (place + 0.5) - width * len(series) / 2
        for number, one in enumerate(series):
            value, x = one.values[place], left + width * number
            if value is not None:
                parts.append(bar(x, value, width * 0.9, highest, COLORS[number % len(COLORS)]))
            parts.append(text(x + width * 0.45, height_of(value or 0, highest) - 3, _short(value), "middle", 9))
        parts.append(text(LEFT + slot * (place + 0.5), HEIGHT - BOTTOM + 16, f"{group}{unit}", "middle", 11))
    return picture([*parts, *_legend([one.name for one in series])], title, _with_legend(len(series)))


def _pieces(at: Sequence[float], values: Sequence[float | None]) -> Iterator[list[tuple[float, float]]]:
    """The line, broken where a value is unknown."""
    piece: list[tuple[float, float]] = []
    for x, y in zip(at, values, strict=True):
        if y is not None:
            piece.append((x, y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _levels(top: float) -> list[tuple[float, str]]:
    return [(top * part / 4, f"{top * part / 4:g}") for part in range(5)]


def _axis(begin: float, end: float, scale: float, across: str) -> Iterator[str]:
    for at in ticks(begin, end):
        yield text(LEFT + (at - begin) * scale, HEIGHT - BOTTOM + 16, f"{at:g} {across}".strip(), "middle", 11)


def ticks(begin: float, end: float) -> Iterator[float]:
    """Round numbers from the first to the last, about eight."""
    step = _round_up((end - begin) / 8) if end > begin else 1.0
    for number in range(math.ceil(begin / step), math.floor(end / step) + 1):
        yield number * step


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        x, y = LEFT + number % _PER_ROW * INNER / _PER_ROW, HEIGHT + number // _PER_ROW * _LEGEND
        yield text(x, y, "\u25a0", "start", 12, COLORS[number % len(COLORS)])
        yield text(x + 14, y, name, "start", 12)


def _with_legend(number: int) -> int:
    return HEIGHT if number == 0 else HEIGHT + 8 + (number - 1) // _PER_ROW * _LEGEND


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= value * 0.999999)


def _short(value: float | None) -> str:
    if value is None:
        return "--"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if value else "0"
