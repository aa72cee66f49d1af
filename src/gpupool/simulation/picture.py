"""One simulated life as a picture: which claim held which part of which card when, the queue and the fragments.

A page of its own that needs no network. What a box stands for is told where the mouse rests on it, and in the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from gpupool.base.units import WHOLE
from gpupool.drawing.charts import Series, lines
from gpupool.drawing.page import page, table
from gpupool.drawing.svg import COLORS
from gpupool.simulation.decisions import COLUMNS
from gpupool.simulation.measure import Sample
from gpupool.simulation.picture_cards import Card, Stay, cards_over_time
from gpupool.simulation.report import unit_of
from gpupool.simulation.trace import NS, Node

MOST_CARDS = 128
MOST_BOXES = 20_000
MOST_LINES = 500
"""Beyond these a browser is slow; what is left out is said on the page."""

_INSTANTS = 24
"""Lines of the table over time."""

_EVENTS = (
    ("placed", "starts"),
    ("ended", "ends"),
    ("evicted", "evictions"),
    ("refused", "refused jobs"),
    ("left", "jobs that never started"),
)
_STYLE = "summary{cursor:pointer;margin:1em 0}.key{white-space:nowrap;margin-right:1.2em}"


def html(title: str, nodes: Sequence[Node], rows: Iterable[Sequence[object]], timeline: Sequence[Sample]) -> str:
    """The page of one life: `rows` as `decisions` has them, `timeline` as `measure` has it."""
    decided = [dict(zip(COLUMNS, map(str, row), strict=True)) for row in rows]
    found = list(stays(decided))
    cards = [(node.name, place) for node in nodes for place in range(len(node.cards))]
    seconds = max([float(one["time"]) for one in decided] + [sample.at_ns / NS for sample in timeline], default=0.0)
    return page(
        title, [*_short(decided, cards), *_picture(cards, found, seconds), *_over_time(timeline, len(cards))], _STYLE
    )


def stays(decided: Iterable[Mapping[str, str]]) -> Iterator[Stay]:
    """Of the decisions, one for each card of each placement that was ended or evicted."""
    since: dict[str, float] = {}
    for one in decided:
        at = float(one["time"])
        if one["event"] == "placed":
            since[one["claim"]] = at
        elif one["event"] in ("ended", "evicted") and one["claim"] in since:
            begin = since.pop(one["claim"])
            for place in one["cards"].split():
                card = one["node"], int(place)
                yield Stay(card, one["claim"], one["tenant"], int(one["gpu_milli"]), begin, at, one["event"])


def _short(decided: Sequence[Mapping[str, str]], cards: Sequence[Card]) -> Iterator[str]:
    counted = {event: sum(one["event"] == event for one in decided) for event, _ in _EVENTS}
    facts = [("cards", str(len(cards))), *((words, str(counted[event])) for event, words in _EVENTS)]
    yield table([name for name, _ in facts], [[number for _, number in facts]], words=0)


def _picture(cards: Sequence[Card], found: Sequence[Stay], seconds: float) -> Iterator[str]:
    yield "<h2>Cards over time</h2>"
    if not found:
        yield "<p>No job held a card.</p>"
        return
    shown = cards[:MOST_CARDS]
    there = set(shown)
    boxes = [one for one in found if one.card in there][:MOST_BOXES]
    colors = _colors(found)
    yield _legend(colors)
    yield cards_over_time(shown, boxes, seconds, colors)
    yield f'<p class="note">{escape(_left_out(cards, found, boxes))}</p>'
    yield from _as_table(found, seconds)


def _as_table(found: Sequence[Stay], seconds: float) -> Iterator[str]:
    scale, unit = unit_of(seconds)
    lines_ = sorted(found, key=lambda one: (one.begin, one.claim, one.card))[:MOST_LINES]
    titles = ["claim", "tenant", "card", "GPU", f"from, {unit}", f"to, {unit}", "then"]
    body = [
        [
            *(one.claim, one.tenant, one.name, f"{one.milli / WHOLE:.2f}"),
            *(f"{one.begin / scale:.3f}", f"{one.end / scale:.3f}", one.event),
        ]
        for one in lines_
    ]
    part = "" if len(lines_) == len(found) else f", the first {len(lines_)}; all of them: --record"
    yield f"<details><summary>The same as a table: {len(found)} stays{part}</summary>"
    yield table(titles, body, words=3) + "</details>"


def _colors(found: Iterable[Stay]) -> dict[str, str]:
    tenants = sorted({one.tenant for one in found})
    return {tenant: COLORS[number % len(COLORS)] for number, tenant in enumerate(tenants)}


def _legend(colors: Mapping[str, str]) -> str:
    marks = "".join(
        f'<span class="key"><span style="color:{color}">&#9632;</span> {escape(name)}</span> '
        for name, color in colors.items()
    )
    again = f'<p class="note">{len(COLORS)} colours for {len(colors)} tenants: they come again.</p>'
    return f"<p>{marks}</p>{again if len(colors) > len(COLORS) else ''}"


def _left_out(cards: Sequence[Card], found: Sequence[Stay], boxes: Sequence[Stay]) -> str:
    shown = min(len(cards), MOST_CARDS)
    return f"{shown} of {len(cards)} cards, {len(boxes)} of {len(found)} stays; a box says whose it is."


def _over_time(timeline: Sequence[Sample], cards: int) -> Iterator[str]:
    if not timeline:
        return
    scale, unit = unit_of(timeline[-1].at_ns / NS)
    at = [sample.at_ns / NS / scale for sample in timeline]
    curves: tuple[tuple[str, Sequence[float], float], ...] = (
        ("Jobs that wait", [float(one.waiting) for one in timeline], 0),
        ("Cards held", [one.held_milli / WHOLE for one in timeline], float(cards)),
        ("Fragments, cards", [one.fragment_milli / WHOLE for one in timeline], 0),
    )
    for title, values, top in curves:
        yield f"<h2>{escape(title)}</h2>"
        yield lines(title, [at], [Series(title, list(values))], unit, top)
    every = max(1, -(-len(at) // _INSTANTS))
    body = [[f"{at[n]:.2f}", *(f"{values[n]:.2f}" for _, values, _ in curves)] for n in range(0, len(at), every)]
    yield "<details><summary>The same as a table</summary>"
    yield table([f"time, {unit}", *(title for title, _, _ in curves)], body, words=0) + "</details>"
