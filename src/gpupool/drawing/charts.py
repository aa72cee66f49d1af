"""Draw whole plots from numbers and names: lines over a common axis, and bars in groups."""

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
    compute_y,
    draw_bar,
    draw_grid,
    draw_path,
    draw_text,
    wrap_picture,
)

#: Height of a row of the legend, and names in a row.
_LEGEND = 18
_PER_ROW = 5


@dataclass(frozen=True)
class PlotSeries:
    """One line of a plot, or one colour of its bars; an unknown value is None."""

    name: str
    values: Sequence[float | None]


def draw_lines(
    title: str,
    at: Sequence[Sequence[float]],
    series: Sequence[PlotSeries],
    across: str,
    top: float = 0,
) -> str:
    """Draw each series over its own `at`, which has as many values.

    Args:
        title: The title; one series of the same name has no legend.
        at: Positions on the axis, which goes from the first to the last of all.
        series: The lines.
        across: The axis's unit.
        top: The highest value of the plot, 0 for a round one above all values.

    Returns:
        The SVG; empty without a point.
    """
    known: list[float] = []
    for points in at:
        known += points
    if not known or not series:
        return ""
    begin = min(known)
    end = max(known)
    highest = top or _round_up(_find_highest(series))
    # One instant alone has no length: it stands at the left.
    scale = INNER / ((end - begin) or 1.0)
    parts = [*draw_grid(highest, _list_levels(highest)), *_draw_axis(begin, end, scale, across)]
    names: list[str] = []
    for number, (points, one) in enumerate(zip(at, series, strict=True)):
        names.append(one.name)
        for piece in _split_at_gaps(points, one.values):
            drawn: list[tuple[float, float]] = []
            for x, y in piece:
                # What lies above a fixed top is drawn at the top, not outside the picture.
                drawn.append((LEFT + (x - begin) * scale, compute_y(min(y, highest), highest)))
            parts.append(draw_path(drawn, COLORS[number % len(COLORS)]))
    if names == [title]:
        names = []
    return wrap_picture([*parts, *_draw_legend(names)], title, _compute_height(len(names)))


def draw_bars(
    title: str, groups: Sequence[str], series: Sequence[PlotSeries], unit: str = ""
) -> str:
    """Draw bars in groups, one of each series in a group; an unknown value is `--` and no bar."""
    if not groups or not series:
        return ""
    highest = _round_up(_find_highest(series))
    parts = list(draw_grid(highest, _list_levels(highest)))
    slot = INNER / len(groups)
    width = min(40.0, slot * 0.8 / len(series))
    for place, group in enumerate(groups):
        middle = LEFT + slot * (place + 0.5)
        left = middle - width * len(series) / 2
        for number, one in enumerate(series):
            value = one.values[place]
            x = left + width * number
            if value is not None:
                color = COLORS[number % len(COLORS)]
                parts.append(draw_bar(x, value, width * 0.9, highest, color))
            y = compute_y(value or 0, highest) - 3
            parts.append(draw_text(x + width * 0.45, y, _format_short(value), "middle", 9))
        parts.append(draw_text(middle, HEIGHT - BOTTOM + 16, f"{group}{unit}", "middle", 11))
    legend = _draw_legend([one.name for one in series])
    return wrap_picture([*parts, *legend], title, _compute_height(len(series)))


def _find_highest(series: Sequence[PlotSeries]) -> float:
    """Find the highest known value, 1 where none is known."""
    highest: float | None = None
    for one in series:
        for value in one.values:
            if value is not None and (highest is None or value > highest):
                highest = value
    return 1.0 if highest is None else highest


def _split_at_gaps(
    at: Sequence[float], values: Sequence[float | None]
) -> Iterator[list[tuple[float, float]]]:
    """Yield the pieces of the line, which is broken where a value is unknown."""
    piece: list[tuple[float, float]] = []
    for x, y in zip(at, values, strict=True):
        if y is not None:
            piece.append((x, y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _list_levels(top: float) -> list[tuple[float, str]]:
    return [(top * part / 4, f"{top * part / 4:g}") for part in range(5)]


def _draw_axis(begin: float, end: float, scale: float, across: str) -> Iterator[str]:
    for at in list_ticks(begin, end):
        yield draw_text(
            LEFT + (at - begin) * scale,
            HEIGHT - BOTTOM + 16,
            f"{at:g} {across}".strip(),
            "middle",
            11,
        )


def list_ticks(begin: float, end: float) -> Iterator[float]:
    """Yield round numbers from the first to the last, about eight."""
    step = _round_up((end - begin) / 8) if end > begin else 1.0
    for number in range(math.ceil(begin / step), math.floor(end / step) + 1):
        yield number * step


def _draw_legend(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        x = LEFT + number % _PER_ROW * INNER / _PER_ROW
        y = HEIGHT + number // _PER_ROW * _LEGEND
        yield draw_text(x, y, "\u25a0", "start", 12, COLORS[number % len(COLORS)])
        yield draw_text(x + 14, y, name, "start", 12)


def _compute_height(number: int) -> int:
    return HEIGHT if number == 0 else HEIGHT + 8 + (number - 1) // _PER_ROW * _LEGEND


def _round_up(value: float) -> float:
    """Round up to the next of 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1, 2, 2.5, 5):
        # 0.3 computed as 0.30000000000000004 must not double the axis.
        if power * step >= value * 0.999999:
            return power * step
    return power * 10


def _format_short(value: float | None) -> str:
    if value is None:
        return "--"
    if not value:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
