"""The two plots of a verification: asked beside measured with error bars, and rates over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpupool.drawing.svg import (
    BOTTOM,
    COLORS,
    HEIGHT,
    INNER,
    LEFT,
    TOP,
    bar,
    grid,
    height_of,
    line,
    path,
    picture,
    text,
)
from gpupool.verification.findings import Bar, Timeline

_ASKED: Final = "#9aa3ad"
_S: Final = 10**9


def bars(found: Sequence[Bar]) -> str:
    """Asked (grey) beside measured, with 95 % intervals; parts of a card in percent."""
    top = max([1.0, *(one.measured + (one.error or 0) for one in found)])
    slot = INNER / max(1, len(found))
    parts = list(grid(top, _percents([0.2, 0.4, 0.6, 0.8, 1.0])))
    for number, one in enumerate(found):
        middle = LEFT + slot * (number + 0.5)
        half = min(36.0, slot / 5)
        parts.append(bar(middle - 2 * half, one.asked, 2 * half, top, _ASKED))
        parts.append(bar(middle, one.measured, 2 * half, top, COLORS[0]))
        parts += _whisker(middle + half, one, top)
        parts.append(text(middle, HEIGHT - 18, one.name, "middle"))
        said = f"{one.asked * 100:.0f} % asked, {one.measured * 100:.1f} % measured"
        parts.append(text(middle, HEIGHT - 4, said, "middle", 11))
    return picture(parts, "asked and measured")


def timeline(found: Timeline) -> str:
    """Rates over time; dashed: what was promised; upright: what was done then."""
    lines = [one for one in found.lines if one.series]
    if not lines:
        return ""
    begin = min(one.series[0].begin_ns for one in lines)
    end = max(one.series[-1].end_ns for one in lines)
    top = min(max([1.0, *(stretch.rate for one in lines for stretch in one.series)]), 1.5)
    parts = list(grid(top, _percents(found.levels)))
    scale = INNER / max(1, end - begin)
    for number, one in enumerate(lines):
        steps = [
            (LEFT + (at - begin) * scale, height_of(min(stretch.rate, top), top))
            for stretch in one.series
            for at in (stretch.begin_ns, stretch.end_ns)
        ]
        color = COLORS[number % len(COLORS)]
        parts.append(path(steps, color))
        parts.append(text(LEFT + 8 + 150 * number, HEIGHT - 4, f"\u25a0 {one.name}", "start", 12, color))
    for mark in found.marks:
        x = LEFT + (mark.at_ns - begin) * scale
        parts.append(line(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(text(x + 3, TOP + 10, mark.text, "start", 11))
    parts += _seconds((end - begin) / _S, scale * _S)
    return picture(parts, found.title)


def _percents(levels: Sequence[float]) -> list[tuple[float, str]]:
    return [(level, f"{level * 100:.0f} %") for level in levels]


def _seconds(length: float, scale: float) -> Iterator[str]:
    step = next((size for size in (0.5, 1, 2, 5, 10, 20) if length / size <= 12), 60)
    for number in range(1, int(length / step) + 1):
        yield text(LEFT + number * step * scale, HEIGHT - 20, f"{number * step:g} s", "middle", 11)


def _whisker(x: float, one: Bar, top: float) -> list[str]:
    if one.error is None:
        return []
    low, high = height_of(max(0.0, one.measured - one.error), top), height_of(min(top, one.measured + one.error), top)
    return [line(x, low, x, high), line(x - 5, low, x + 5, low), line(x - 5, high, x + 5, high)]
