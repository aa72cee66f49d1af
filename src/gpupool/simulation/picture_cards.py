"""Cards over time: a row for each card, a box for each stay, coloured by tenant, over an axis of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gpupool.base.units import WHOLE
from gpupool.drawing.charts import ticks
from gpupool.drawing.svg import text
from gpupool.simulation.report import unit_of

_WIDTH, _ROW, _FOOT = 1000, 14, 26
_LETTER = 5.6
"""Width of one of size 9."""
_MOST_LETTERS = 30

Card = tuple[str, int]
"""A node's name, and the place of the card on it."""


@dataclass(frozen=True)
class Stay:
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
        return card_name(self.card)


def card_name(card: Card) -> str:
    return f"{card[0]}:{card[1]}"


def offsets(here: Iterable[Stay]) -> Iterator[tuple[Stay, int]]:
    """Each stay on one card with where it begins, in thousandths: the lowest gap that fits; 0 where none does."""
    there: list[tuple[int, Stay]] = []
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


def cards_over_time(shown: Sequence[Card], boxes: Iterable[Stay], seconds: float, colors: Mapping[str, str]) -> str:
    by_card: dict[Card, list[Stay]] = defaultdict(list)
    for one in boxes:
        by_card[one.card].append(one)
    names = [_shortened(card_name(card)) for card in shown]
    left = 8 + _LETTER * max(map(len, names), default=0)
    scale, foot = (_WIDTH - left) / max(seconds, 1.0), _ROW * len(shown)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {foot + _FOOT}" role="img" aria-label="cards over time" font-family="sans-serif">'
    ]
    for number, card in enumerate(shown):
        top = number * _ROW
        parts.append(text(left - 4, top + 10, names[number], "end", 9))
        parts.append(f'<rect x="{left:.1f}" y="{top}" width="{_WIDTH - left:.1f}" height="{_ROW - 2}" fill="#8882"/>')
        for one, low in offsets(by_card.get(card, ())):
            parts.append(_box(one, low, left, top, scale, colors[one.tenant], seconds))
    return "".join([*parts, *_axis(left, foot, scale, seconds), "</svg>"])


def _axis(left: float, foot: float, scale: float, seconds: float) -> Iterator[str]:
    size, unit = unit_of(seconds)
    for at in ticks(0.0, seconds / size):
        x = left + at * size * scale
        yield f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{foot + 4}" stroke="currentColor" stroke-opacity=".25"/>'
        anchor = "start" if at == 0 else "end" if x > _WIDTH - 20 else "middle"
        yield text(x, foot + 18, f"{at:g} {unit}", anchor, 11)


def _box(one: Stay, low: int, left: float, top: int, scale: float, color: str, seconds: float) -> str:
    size, unit = unit_of(seconds)
    tall = (_ROW - 2) / WHOLE
    x, y = left + one.begin * scale, top + low * tall
    width, height = max((one.end - one.begin) * scale, 0.3), max(one.milli * tall, 0.5)
    when = f"{one.begin / size:.2f} {unit} to {one.end / size:.2f} {unit}"
    said = f"{one.claim} of {one.tenant}: {one.milli / WHOLE:.2f} GPU, {when}"
    said += ", then evicted" if one.event == "evicted" else ""
    box = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    # The edge tells two claims of one tenant behind each other apart, in light and in dark.
    edge = 'stroke="#fff" stroke-opacity=".7" stroke-width=".4"'
    return f'<rect {box} fill="{color}" {edge}><title>{escape(said)}</title></rect>'


def _shortened(name: str) -> str:
    """The end of a long name, which tells cards apart."""
    return name if len(name) <= _MOST_LETTERS else f"…{name[1 - _MOST_LETTERS :]}"
