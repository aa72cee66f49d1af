"""Draw cards over time: a row for each card, a box for each stay, coloured by tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gpupool.base.units import WHOLE
from gpupool.drawing.charts import list_ticks
from gpupool.drawing.svg import draw_text
from gpupool.simulation.reports.report import choose_unit

#: Of the picture, of a card's row and of the axis below them, in units of the picture.
_WIDTH = 1000
_ROW = 14
_FOOT = 26
#: Width of one of size 9.
_LETTER = 5.6
_MOST_LETTERS = 30

#: A node's name, and the place of the card on it.
Card = tuple[str, int]


@dataclass(frozen=True)
class CardStay:
    """One claim on one card, in seconds; `event` ended it."""

    card: Card
    claim: str
    tenant: str
    milli: int
    begin: float
    end: float
    event: str = "ended"

    @property
    def name(self) -> str:
        return format_card(self.card)


def format_card(card: Card) -> str:
    return f"{card[0]}:{card[1]}"


def stack_stays(here: Iterable[CardStay]) -> Iterator[tuple[CardStay, int]]:
    """Yield each stay on one card with its lowest thousandth: the lowest gap that fits.

    0 where none fits: a record that gives a card away twice must still be drawn.
    """
    there: list[tuple[int, CardStay]] = []
    for one in sorted(here, key=lambda stay: (stay.begin, stay.end, stay.claim)):
        there = [(low, other) for low, other in there if other.end > one.begin]
        at = 0
        for low, other in sorted(there, key=lambda pair: pair[0]):
            if at + one.milli <= low:
                break
            at = max(at, low + other.milli)
        at = at if at + one.milli <= WHOLE else 0
        there.append((at, one))
        yield one, at


def draw_cards(
    shown: Sequence[Card], boxes: Iterable[CardStay], seconds: float, colors: Mapping[str, str]
) -> str:
    """Draw the cards `shown` with their `boxes` as one SVG; `seconds` is the axis's length."""
    by_card: dict[Card, list[CardStay]] = defaultdict(list)
    for one in boxes:
        by_card[one.card].append(one)
    names = [_shorten_name(format_card(card)) for card in shown]
    left = 8 + _LETTER * max(map(len, names), default=0)
    scale = (_WIDTH - left) / max(seconds, 1.0)
    foot = _ROW * len(shown)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {foot + _FOOT}" role="img" aria-label="cards over time" font-family="sans-serif">'
    ]
    for number, card in enumerate(shown):
        top = number * _ROW
        parts.append(draw_text(left - 4, top + 10, names[number], "end", 9))
        parts.append(
            f'<rect x="{left:.1f}" y="{top}" width="{_WIDTH - left:.1f}" height="{_ROW - 2}" fill="#8882"/>'
        )
        for one, low in stack_stays(by_card.get(card, ())):
            parts.append(_draw_stay(one, low, left, top, scale, colors[one.tenant], seconds))
    return "".join([*parts, *_draw_axis(left, foot, scale, seconds), "</svg>"])


def _draw_axis(left: float, foot: float, scale: float, seconds: float) -> Iterator[str]:
    size, unit = choose_unit(seconds)
    for at in list_ticks(0.0, seconds / size):
        x = left + at * size * scale
        yield f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{foot + 4}" stroke="currentColor" stroke-opacity=".25"/>'
        anchor = "start" if at == 0 else "end" if x > _WIDTH - 20 else "middle"
        yield draw_text(x, foot + 18, f"{at:g} {unit}", anchor, 11)


def _draw_stay(
    one: CardStay, low: int, left: float, top: int, scale: float, color: str, seconds: float
) -> str:
    size, unit = choose_unit(seconds)
    tall = (_ROW - 2) / WHOLE
    x = left + one.begin * scale
    y = top + low * tall
    # A stay of a second in a month, and one without compute, stay visible.
    width = max((one.end - one.begin) * scale, 0.3)
    height = max(one.milli * tall, 0.5)
    when = f"{one.begin / size:.2f} {unit} to {one.end / size:.2f} {unit}"
    words = f"{one.claim} of {one.tenant}: {one.milli / WHOLE:.2f} GPU, {when}"
    words += ", then evicted" if one.event == "evicted" else ""
    box = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    # The edge tells two claims of one tenant behind each other apart, in light and in dark.
    edge = 'stroke="#fff" stroke-opacity=".7" stroke-width=".4"'
    return f'<rect {box} fill="{color}" {edge}><title>{escape(words)}</title></rect>'


def _shorten_name(name: str) -> str:
    """Keep the end of a long name, which tells cards apart."""
    return name if len(name) <= _MOST_LETTERS else f"…{name[1 - _MOST_LETTERS :]}"
