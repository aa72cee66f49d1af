"""One simulated life as a picture: which claim held which part of which card when, the queue and the fragments.

A page of its own that needs no network: a row for each card, a box for each stay, coloured by tenant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gpupool.base.units import WHOLE
from gpupool.drawing.charts import Series, lines
from gpupool.drawing.page import page
from gpupool.drawing.svg import COLORS
from gpupool.simulation.decisions import COLUMNS
from gpupool.simulation.measure import Sample
from gpupool.simulation.trace import NS, Node

MOST_CARDS = 128
MOST_BOXES = 20_000
"""Beyond these a browser is slow; what is left out is said on the page."""
_WIDTH, _LEFT, _ROW = 1000, 90, 14
_HOUR = 3600

Card = tuple[str, int]
"""A node's name, and the place of the card on it."""


@dataclass(frozen=True)
class Stay:
    """One claim on one card, in seconds."""

    card: Card
    claim: str
    tenant: str
    milli: int
    begin: float
    end: float


def html(title: str, nodes: Sequence[Node], rows: Iterable[Sequence[object]], timeline: Sequence[Sample]) -> str:
    """The page of one life: `rows` as `decisions` has them, `timeline` as `measure` has it."""
    found = list(stays(rows))
    cards = [(node.name, place) for node in nodes for place in range(len(node.cards))]
    shown = cards[:MOST_CARDS]
    boxes = [one for one in found if one.card in set(shown)][:MOST_BOXES]
    colors, last = _colors(found), max((one.end for one in found), default=0.0)
    parts = ["<h2>Cards over time</h2>", _legend(colors), _cards(shown, boxes, last, colors)]
    parts.append(f'<p class="note">{escape(_left_out(cards, found, boxes))}</p>')
    return page(title, [*parts, *_over_time(timeline, len(cards))])


def stays(rows: Iterable[Sequence[object]]) -> Iterator[Stay]:
    """Of the decisions, one for each card of each placement that was ended or evicted."""
    since: dict[str, float] = {}
    for row in rows:
        one = dict(zip(COLUMNS, map(str, row), strict=True))
        at = float(one["time"])
        if one["event"] == "placed":
            since[one["claim"]] = at
        elif one["event"] in ("ended", "evicted") and one["claim"] in since:
            begin = since.pop(one["claim"])
            for place in one["cards"].split():
                card = one["node"], int(place)
                yield Stay(card, one["claim"], one["tenant"], int(one["gpu_milli"]), begin, at)


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


def _cards(shown: Sequence[Card], boxes: Iterable[Stay], last: float, colors: Mapping[str, str]) -> str:
    by_card: dict[Card, list[Stay]] = defaultdict(list)
    for one in boxes:
        by_card[one.card].append(one)
    scale, height = (_WIDTH - _LEFT) / max(last, 1.0), _ROW * len(shown) + 20
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="cards over time">']
    for number, card in enumerate(shown):
        top = number * _ROW
        name = escape(f"{card[0]}:{card[1]}")
        parts.append(
            f'<text x="{_LEFT - 4}" y="{top + 10}" font-size="9" text-anchor="end" fill="currentColor">{name}</text>'
        )
        parts.append(f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT}" height="{_ROW - 2}" fill="#8882"/>')
        for one, low in offsets(by_card.get(card, ())):
            parts.append(_box(one, low, top, scale, colors[one.tenant]))
    parts.append(f'<text x="{_LEFT}" y="{height - 4}" font-size="10" fill="currentColor">0 h</text>')
    ends = f"{last / _HOUR:.1f} h"
    parts.append(
        f'<text x="{_WIDTH}" y="{height - 4}" font-size="10" text-anchor="end" fill="currentColor">{ends}</text>'
    )
    return "".join([*parts, "</svg>"])


def _box(one: Stay, low: int, top: int, scale: float, color: str) -> str:
    tall = (_ROW - 2) / WHOLE
    x, y = _LEFT + one.begin * scale, top + low * tall
    width, height = max((one.end - one.begin) * scale, 0.3), max(one.milli * tall, 0.5)
    when = f"{one.begin / _HOUR:.2f} h to {one.end / _HOUR:.2f} h"
    said = f"{one.claim} of {one.tenant}: {one.milli / WHOLE:.2f} GPU, {when}"
    box = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return f'<rect {box} fill="{color}" stroke="#0004" stroke-width=".2"><title>{escape(said)}</title></rect>'


def _colors(stays_: Iterable[Stay]) -> dict[str, str]:
    tenants = sorted({one.tenant for one in stays_})
    return {tenant: COLORS[number % len(COLORS)] for number, tenant in enumerate(tenants)}


def _legend(colors: Mapping[str, str]) -> str:
    marks = (f'<span style="color:{color}">&#9632;</span> {escape(name)}' for name, color in colors.items())
    return f"<p>{' &nbsp; '.join(marks)}</p>"


def _left_out(cards: Sequence[Card], found: Sequence[Stay], boxes: Sequence[Stay]) -> str:
    shown = min(len(cards), MOST_CARDS)
    return f"{shown} of {len(cards)} cards, {len(boxes)} of {len(found)} stays; a box says whose it is."


def _over_time(timeline: Sequence[Sample], cards: int) -> Iterator[str]:
    at = [sample.at_ns / NS / _HOUR for sample in timeline]
    curves: tuple[tuple[str, Sequence[float], float], ...] = (
        ("Jobs that wait", [float(one.waiting) for one in timeline], 0),
        ("Cards held", [one.held_milli / WHOLE for one in timeline], float(cards)),
        ("Fragments, cards", [one.fragment_milli / WHOLE for one in timeline], 0),
    )
    for title, values, top in curves:
        yield f"<h2>{escape(title)}</h2>"
        yield lines(title, [at], [Series(title, list(values))], "h", top)
