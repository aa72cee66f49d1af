"""Draw the two plots of a verification: asked beside measured, and rates over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.drawing.svg import (
    BOTTOM,
    COLORS,
    HEIGHT,
    INNER,
    LEFT,
    TOP,
    compute_y,
    draw_bar,
    draw_grid,
    draw_line,
    draw_path,
    draw_text,
    wrap_picture,
)
from gpupool.verification.findings import RateTimeline, ShareBar
from gpupool.verification.statistics import RateStretch

_ASKED: Final = "#9aa3ad"


def draw_shares(found: Sequence[ShareBar]) -> str:
    """Draw asked (grey) beside measured, with 95 % intervals; parts of a card in percent."""
    top = max([1.0, *(one.measured + (one.error or 0) for one in found)])
    slot = INNER / max(1, len(found))
    parts = list(draw_grid(top, _label_levels([0.2, 0.4, 0.6, 0.8, 1.0])))
    for number, one in enumerate(found):
        middle = LEFT + slot * (number + 0.5)
        half = min(36.0, slot / 5)
        parts.append(draw_bar(middle - 2 * half, one.asked, 2 * half, top, _ASKED))
        parts.append(draw_bar(middle, one.measured, 2 * half, top, COLORS[0]))
        parts += _draw_whisker(middle + half, one, top)
        parts.append(draw_text(middle, HEIGHT - 18, one.name, "middle"))
        words = f"{one.asked * 100:.0f} % asked, {one.measured * 100:.1f} % measured"
        parts.append(draw_text(middle, HEIGHT - 4, words, "middle", 11))
    return wrap_picture(parts, "asked and measured")


def draw_timeline(found: RateTimeline) -> str:
    """Draw rates over time; dashed: what was promised; upright: what was done then."""
    lines = [one for one in found.lines if one.series]
    if not lines:
        return ""
    stretches: list[RateStretch] = []
    for one in lines:
        stretches += one.series
    begin = min(stretch.begin_ns for stretch in stretches)
    end = max(stretch.end_ns for stretch in stretches)
    # A short stretch may show far more than a card; it must not flatten all others.
    top = min(max(1.0, *(stretch.rate for stretch in stretches)), 1.5)
    parts = list(draw_grid(top, _label_levels(found.levels)))
    scale = INNER / max(1, end - begin)
    for number, one in enumerate(lines):
        steps: list[tuple[float, float]] = []
        for stretch in one.series:
            y = compute_y(min(stretch.rate, top), top)
            steps.append((LEFT + (stretch.begin_ns - begin) * scale, y))
            steps.append((LEFT + (stretch.end_ns - begin) * scale, y))
        color = COLORS[number % len(COLORS)]
        parts.append(draw_path(steps, color))
        parts.append(
            draw_text(LEFT + 8 + 150 * number, HEIGHT - 4, f"\u25a0 {one.name}", "start", 12, color)
        )
    for mark in found.marks:
        x = LEFT + (mark.at_ns - begin) * scale
        parts.append(draw_line(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(draw_text(x + 3, TOP + 10, mark.text, "start", 11))
    parts += _draw_seconds((end - begin) / NANOS_PER_SECOND, scale * NANOS_PER_SECOND)
    return wrap_picture(parts, found.title)


def _label_levels(levels: Sequence[float]) -> list[tuple[float, str]]:
    return [(level, f"{level * 100:.0f} %") for level in levels]


def _draw_seconds(length: float, scale: float) -> Iterator[str]:
    step = next((size for size in (0.5, 1, 2, 5, 10, 20) if length / size <= 12), 60)
    for number in range(1, int(length / step) + 1):
        yield draw_text(
            LEFT + number * step * scale, HEIGHT - 20, f"{number * step:g} s", "middle", 11
        )


def _draw_whisker(x: float, one: ShareBar, top: float) -> list[str]:
    if one.error is None:
        return []
    low = compute_y(max(0.0, one.measured - one.error), top)
    high = compute_y(min(top, one.measured + one.error), top)
    return [
        draw_line(x, low, x, high),
        draw_line(x - 5, low, x + 5, low),
        draw_line(x - 5, high, x + 5, high),
    ]
