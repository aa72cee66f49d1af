"""Render one simulated life as a page: which claim held which part of which card, and when.

The page needs no network. A box names its claim where the mouse rests on it; the tables say the
same without a mouse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.drawing.charts import PlotSeries, draw_lines
from gpupool.drawing.page import build_page, render_table
from gpupool.drawing.svg import COLORS
from gpupool.simulation.replay.measure import PoolSample
from gpupool.simulation.reports.picture_cards import Card, CardStay, draw_cards
from gpupool.simulation.reports.report import choose_unit
from gpupool.simulation.studies.decisions import COLUMNS
from gpupool.simulation.traces.trace import TraceNode

#: Beyond these a browser is slow; the page says what is left out.
MOST_CARDS = 128
MOST_BOXES = 20_000
MOST_LINES = 500

#: Lines of the table over time.
_INSTANTS = 24

_EVENTS = (
    ("placed", "starts"),
    ("ended", "ends"),
    ("evicted", "evictions"),
    ("refused", "refused jobs"),
    ("left", "jobs that never started"),
)
_STYLE = "summary{cursor:pointer;margin:1em 0}.key{white-space:nowrap;margin-right:1.2em}"


def render_page(
    title: str,
    nodes: Sequence[TraceNode],
    rows: Iterable[Sequence[object]],
    timeline: Sequence[PoolSample],
) -> str:
    """Render the page of one life: `rows` are those of `decisions`, `timeline` of `measure`."""
    decided: list[dict[str, str]] = []
    seconds = 0.0
    for row in rows:
        decided.append(dict(zip(COLUMNS, map(str, row), strict=True)))
        seconds = max(seconds, float(decided[-1]["time"]))
    for sample in timeline:
        seconds = max(seconds, sample.at_ns / NANOS_PER_SECOND)
    found = list(list_stays(decided))
    cards: list[Card] = []
    for node in nodes:
        cards += [(node.name, place) for place in range(len(node.cards))]
    return build_page(
        title,
        [
            *_render_counts(decided, cards),
            *_render_cards(cards, found, seconds),
            *_render_timelines(timeline, len(cards)),
        ],
        _STYLE,
    )


def list_stays(decided: Iterable[Mapping[str, str]]) -> Iterator[CardStay]:
    """Yield a stay for each card of each placement that ended or was evicted."""
    since: dict[str, float] = {}
    for one in decided:
        at = float(one["time"])
        if one["event"] == "placed":
            since[one["claim"]] = at
        elif one["event"] in ("ended", "evicted") and one["claim"] in since:
            begin = since.pop(one["claim"])
            for place in one["cards"].split():
                card = one["node"], int(place)
                yield CardStay(
                    card,
                    one["claim"],
                    one["tenant"],
                    int(one["gpu_milli"]),
                    begin,
                    at,
                    one["event"],
                )


def _render_counts(decided: Sequence[Mapping[str, str]], cards: Sequence[Card]) -> Iterator[str]:
    counts = Counter(one["event"] for one in decided)
    titles = ["cards"]
    cells = [str(len(cards))]
    for event, words in _EVENTS:
        titles.append(words)
        cells.append(str(counts[event]))
    yield render_table(titles, [cells], words=0)


def _render_cards(
    cards: Sequence[Card], found: Sequence[CardStay], seconds: float
) -> Iterator[str]:
    yield "<h2>Cards over time</h2>"
    if not found:
        yield "<p>No job held a card.</p>"
        return
    shown = cards[:MOST_CARDS]
    there = set(shown)
    boxes = [one for one in found if one.card in there][:MOST_BOXES]
    colors = _assign_colors(found)
    yield _render_legend(colors)
    yield draw_cards(shown, boxes, seconds, colors)
    yield f'<p class="note">{escape(_describe_omissions(cards, found, boxes))}</p>'
    yield from _render_stay_table(found, seconds)


def _render_stay_table(found: Sequence[CardStay], seconds: float) -> Iterator[str]:
    scale, unit = choose_unit(seconds)
    shown = sorted(found, key=lambda one: (one.begin, one.claim, one.card))[:MOST_LINES]
    titles = ["claim", "tenant", "card", "GPU", f"from, {unit}", f"to, {unit}", "then"]
    body: list[list[str]] = []
    for one in shown:
        gpus = f"{one.milli / WHOLE:.2f}"
        begin = f"{one.begin / scale:.3f}"
        end = f"{one.end / scale:.3f}"
        body.append([one.claim, one.tenant, one.name, gpus, begin, end, one.event])
    part = "" if len(shown) == len(found) else f", the first {len(shown)}; all of them: --record"
    yield f"<details><summary>The same as a table: {len(found)} stays{part}</summary>"
    yield render_table(titles, body, words=3) + "</details>"


def _assign_colors(found: Iterable[CardStay]) -> dict[str, str]:
    tenants = sorted({one.tenant for one in found})
    return {tenant: COLORS[number % len(COLORS)] for number, tenant in enumerate(tenants)}


def _render_legend(colors: Mapping[str, str]) -> str:
    marks = "".join(
        f'<span class="key"><span style="color:{color}">&#9632;</span> {escape(name)}</span> '
        for name, color in colors.items()
    )
    again = f'<p class="note">{len(COLORS)} colours for {len(colors)} tenants: they come again.</p>'
    return f"<p>{marks}</p>{again if len(colors) > len(COLORS) else ''}"


def _describe_omissions(
    cards: Sequence[Card], found: Sequence[CardStay], boxes: Sequence[CardStay]
) -> str:
    shown = min(len(cards), MOST_CARDS)
    return f"{shown} of {len(cards)} cards, {len(boxes)} of {len(found)} stays; a box says whose it is."


def _render_timelines(timeline: Sequence[PoolSample], cards: int) -> Iterator[str]:
    if not timeline:
        return
    scale, unit = choose_unit(timeline[-1].at_ns / NANOS_PER_SECOND)
    at: list[float] = []
    waiting: list[float] = []
    held: list[float] = []
    fragments: list[float] = []
    for sample in timeline:
        at.append(sample.at_ns / NANOS_PER_SECOND / scale)
        waiting.append(float(sample.waiting))
        held.append(sample.held_milli / WHOLE)
        fragments.append(sample.fragment_milli / WHOLE)
    curves: tuple[tuple[str, list[float], float], ...] = (
        ("Jobs that wait", waiting, 0),
        ("Cards held", held, float(cards)),
        ("Fragments, cards", fragments, 0),
    )
    titles = [f"time, {unit}"]
    for title, values, top in curves:
        titles.append(title)
        yield f"<h2>{escape(title)}</h2>"
        yield draw_lines(title, [at], [PlotSeries(title, values)], unit, top)
    every = max(1, -(-len(at) // _INSTANTS))
    body: list[list[str]] = []
    for n in range(0, len(at), every):
        body.append([f"{value:.2f}" for value in (at[n], waiting[n], held[n], fragments[n])])
    yield "<details><summary>The same as a table</summary>"
    yield render_table(titles, body, words=0) + "</details>"
