"""The strokes every plot is made of. Ink is `currentColor`, so a page in dark and one in light can be read alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 300
LEFT: Final = 52
RIGHT: Final = 16
TOP: Final = 16
BOTTOM: Final = 36
COLORS: Final = ("#2f86c9", "#d1495b", "#2a9d62", "#9b6bc4", "#c77d0a", "#5f8f9e", "#b0587f")
"""Apart from each other for most eyes, and from black and from white."""
INK: Final = "currentColor"
INNER: Final = WIDTH - LEFT - RIGHT


def height_of(value: float, top: float) -> float:
    """Where a value stands, of a plot that reaches from 0 to `top`."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def rule(value: float, top: float, *, base: bool = False) -> str:
    """A level across the plot: dashed, or whole at its foot."""
    y = height_of(value, top)
    style = ' stroke-opacity="0.8"' if base else ' stroke-opacity="0.3" stroke-dasharray="5 4"'
    return f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{INK}"{style}/>'


def grid(top: float, levels: Sequence[tuple[float, str]]) -> Iterator[str]:
    """The foot of the plot, and levels with their words at the left."""
    yield rule(0.0, top, base=True)
    for level, words in levels:
        if level:
            yield rule(level, top)
        yield text(LEFT - 6, height_of(level, top) + 4, words, "end", 11)


def bar(x: float, value: float, width: float, top: float, color: str) -> str:
    y = height_of(value, top)
    height = height_of(0, top) - y
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{INK}"/>'


def path(points: Sequence[tuple[float, float]], color: str) -> str:
    """A line through points of the picture."""
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{through}" fill="none" stroke="{color}" stroke-width="1.6"/>'


def text(x: float, y: float, words: str, anchor: str, size: int = 12, color: str = INK) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"'
    return f"<text {place}>{escape(words)}</text>"


def picture(parts: Sequence[str], title: str, height: int = HEIGHT) -> str:
    """The strokes as one picture, with a title for those who cannot see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
    return f'{head} font-family="sans-serif"><title>{escape(title)}</title>{"".join(parts)}</svg>'
