"""Plots as SVG text: bars with error bars, rates over time. No script, no network, no library; seen by any browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from gpupool.verification.findings import Bar, Timeline

WIDTH: Final = 860
HEIGHT: Final = 300
_LEFT: Final = 52
_RIGHT: Final = 16
_TOP: Final = 16
_BOTTOM: Final = 36
_COLORS: Final = ("#1b6ca8", "#d1495b", "#2a9d62", "#8e5bb5", "#c77d0a")
_S: Final = 10**9


def bars(found: Sequence[Bar]) -> str:
    """Asked (grey) beside measured, with 95 % intervals; parts of a card in percent."""
    top = max([1.0, *(bar.measured + (bar.error or 0) for bar in found)])
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(found))
    parts = list(_grid(top, [0.2, 0.4, 0.6, 0.8, 1.0]))
    for number, bar in enumerate(found):
        middle = _LEFT + slot * (number + 0.5)
        half = min(36.0, slot / 5)
        parts.append(_rect(middle - 2 * half, bar.asked, 2 * half, top, "#c9ced6"))
        parts.append(_rect(middle, bar.measured, 2 * half, top, _COLORS[0]))
        parts += _whisker(middle + half, bar, top)
        parts.append(_text(middle, HEIGHT - 18, bar.name, "middle"))
        parts.append(
            _text(
                middle, HEIGHT - 4, f"{bar.asked * 100:.0f} % asked, {bar.measured * 100:.1f} % measured", "middle", 11
            )
        )
    return _svg(parts, "asked and measured")


def timeline(found: Timeline) -> str:
    """Rates over time; dashed: what was promised; upright: what was done then."""
    lines = [line for line in found.lines if line.series]
    if not lines:
        return ""
    begin = min(line.series[0].begin_ns for line in lines)
    end = max(line.series[-1].end_ns for line in lines)
    top = max([1.0, *(one.rate for line in lines for one in line.series)])
    parts = list(_grid(min(top, 1.5), found.levels))
    top, scale = min(top, 1.5), (WIDTH - _LEFT - _RIGHT) / max(1, end - begin)
    for number, line in enumerate(lines):
        steps = " ".join(
            f"{_LEFT + (at - begin) * scale:.1f},{_y(min(one.rate, top), top):.1f}"
            for one in line.series
            for at in (one.begin_ns, one.end_ns)
        )
        color = _COLORS[number % len(_COLORS)]
        parts.append(f'<polyline points="{steps}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        parts.append(_text(_LEFT + 8 + 150 * number, HEIGHT - 4, f"\u25a0 {line.name}", "start", 12, color))
    for mark in found.marks:
        x = _LEFT + (mark.at_ns - begin) * scale
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{HEIGHT - _BOTTOM}" stroke="#444"/>')
        parts.append(_text(x + 3, _TOP + 10, mark.text, "start", 11))
    parts += _seconds((end - begin) / _S, scale * _S)
    return _svg(parts, found.title)


def _y(value: float, top: float) -> float:
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _grid(top: float, levels: Sequence[float]) -> Iterator[str]:
    yield _rule(0.0, top, "#444", "")
    for level in levels:
        yield _rule(level, top, "#9aa3ad", ' stroke-dasharray="5 4"')
        yield _text(_LEFT - 6, _y(level, top) + 4, f"{level * 100:.0f} %", "end", 11)


def _rule(level: float, top: float, color: str, style: str) -> str:
    y = _y(level, top)
    return f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{color}"{style}/>'


def _seconds(length: float, scale: float) -> Iterator[str]:
    step = next((size for size in (0.5, 1, 2, 5, 10, 20) if length / size <= 12), 60)
    for number in range(1, int(length / step) + 1):
        yield _text(_LEFT + number * step * scale, HEIGHT - 20, f"{number * step:g} s", "middle", 11)


def _rect(x: float, value: float, width: float, top: float, color: str) -> str:
    y = _y(value, top)
    height = _y(0, top) - y
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def _whisker(x: float, bar: Bar, top: float) -> list[str]:
    if bar.error is None:
        return []
    low, high = _y(max(0.0, bar.measured - bar.error), top), _y(min(top, bar.measured + bar.error), top)
    ends = ((x, low, x, high), (x - 5, low, x + 5, low), (x - 5, high, x + 5, high))
    return [f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="#111"/>' for a, b, c, d in ends]


def _text(x: float, y: float, text: str, anchor: str, size: int = 12, color: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"'
    return f"<text {place}>{escape(text)}</text>"


def _svg(parts: Sequence[str], title: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    return f'{head} font-family="sans-serif"><title>{escape(title)}</title>{"".join(parts)}</svg>'
