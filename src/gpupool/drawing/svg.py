"""Draw the strokes that every plot is made of.

Ink is `currentColor`, so that a page is legible in dark and in light.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

#: The picture and its margins, in its own units; the page scales it to the window.
WIDTH: Final = 860
HEIGHT: Final = 300
LEFT: Final = 52
RIGHT: Final = 16
TOP: Final = 16
BOTTOM: Final = 36
#: Distinct from each other for most eyes, and from black and white backgrounds.
COLORS: Final = ("#2f86c9", "#d1495b", "#2a9d62", "#9b6bc4", "#c77d0a", "#5f8f9e", "#b0587f")
INK: Final = "currentColor"
INNER: Final = WIDTH - LEFT - RIGHT


def compute_y(value: float, top: float) -> float:
    """Return the height of a value in a plot that reaches from 0 to `top`; y grows downwards."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def draw_rule(value: float, top: float, *, base: bool = False) -> str:
    """Draw a level across the plot: dashed, or solid at its foot."""
    y = compute_y(value, top)
    style = ' stroke-opacity="0.8"' if base else ' stroke-opacity="0.3" stroke-dasharray="5 4"'
    return (
        f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{INK}"{style}/>'
    )


def draw_grid(top: float, levels: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Draw the foot of the plot, and levels with their words at the left."""
    yield draw_rule(0.0, top, base=True)
    for level, words in levels:
        if level:
            yield draw_rule(level, top)
        yield draw_text(LEFT - 6, compute_y(level, top) + 4, words, "end", 11)


def draw_bar(x: float, value: float, width: float, top: float, color: str) -> str:
    y = compute_y(value, top)
    height = compute_y(0, top) - y
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'
    )


def draw_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{INK}"/>'


def draw_path(points: Sequence[tuple[float, float]], color: str) -> str:
    """Draw a line through points of the picture."""
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{through}" fill="none" stroke="{color}" stroke-width="1.6"/>'


def draw_text(x: float, y: float, words: str, anchor: str, size: int = 12, color: str = INK) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"'
    return f"<text {place}>{escape(words)}</text>"


def wrap_picture(parts: Sequence[str], title: str, height: int = HEIGHT) -> str:
    """Wrap strokes as one picture, with a title for screen readers."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
    return f'{head} font-family="sans-serif"><title>{escape(title)}</title>{"".join(parts)}</svg>'
