"""What came of a simulation as one HTML page that needs nothing else: tables; plots over time, by class, by tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from gpupool.drawing.charts import Series, bars, lines
from gpupool.drawing.page import page, table
from gpupool.simulation.foreknowledge import ORACLE
from gpupool.simulation.measure import Sample, Waits
from gpupool.simulation.nodes import size_of
from gpupool.simulation.study import Life, Question, mean, rows
from gpupool.simulation.synthetic import described
from gpupool.simulation.trace import NS

_Reader = Callable[[Sample], float]
_DAY = 86400
_UNITS = ((2 * _DAY, _DAY, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


def unit_of(seconds: float) -> tuple[int, str]:
    """In what to tell so long a time: seconds to the unit, and its sign."""
    return next((scale, unit) for least, scale, unit in _UNITS if seconds >= least)


def html(question: Question, lives: Sequence[Life]) -> str:
    """The page of all cases."""
    title = f"Simulation of {question.source}"
    return page(title, [*_facts(question), *_summary(lives), *_over_time(lives), *_waits(lives), *_fairness(lives)])


def number(value: float | None, digits: int = 2) -> str:
    """`93.08`; unknown is `--`."""
    return "--" if value is None else f"{value:.{digits}f}"


def described_knowledge(knowledge: str) -> str:
    """For a reader: whether a pool could know it."""
    if knowledge == ORACLE:
        return "oracle: the whole trace was counted before its first claim, which no pool can"
    return "online: learnt from the claims that had come, as in a pool"


def _facts(question: Question) -> Iterator[str]:
    size = size_of(question.nodes)
    models = ", ".join(size.models)
    facts = [
        ("pool", f"{size.nodes} nodes, {size.cards} cards ({models})"),
        ("policies", ", ".join(question.policies)),
        ("knowledge of the claims to come", described_knowledge(question.knowledge)),
        ("seeds", ", ".join(map(str, question.seeds))),
    ]
    if question.synthetic is not None:
        made = described(question.synthetic) | {"seed": "as above"}
        facts.append(("generator", ", ".join(f"{name}={value}" for name, value in made.items())))
    yield table(["what", ""], facts, words=2)


def _summary(lives: Sequence[Life]) -> Iterator[str]:
    titles = ["policy", "allocation %", "of use %", "fragments %", "of free %", "largest", "whole nodes", "evictions"]
    titles += ["lost card h", "never started", "refused", "promised starts", "broken"]
    yield "<h2>In short</h2>" + table(titles, [_short(row, lives) for row in rows(lives)])
    yield '<p class="note">Means over the seeds, of the time in which work arrives. Fragments: what is free and of no '
    yield "use to the classes of jobs that are expected. Largest: cards one claim could get. Whole nodes: wholly free."
    yield " Of use: without work that evictions lost.</p>"


def _short(row: Mapping[str, object], lives: Sequence[Life]) -> list[str]:
    mine = [one.figures for one in lives if one.policy == row["policy"]]
    columns: list[list[float | None]] = [
        [one.allocation_pct for one in mine],
        [one.utilisation_pct for one in mine],
        [one.fragment_pct for one in mine],
        [one.fragment_ratio_pct for one in mine],
        [one.largest_cards for one in mine],
        [one.whole_nodes for one in mine],
        [one.evictions for one in mine],
        [one.lost_card_hours for one in mine],
        [one.unstarted for one in mine],
        [sum(one.refused.values()) for one in mine],
        [one.promises.kept + one.promises.broken for one in mine],
        [one.promises.broken for one in mine],
    ]
    return [str(row["policy"]), *(number(mean(column)) for column in columns)]


def _over_time(lives: Sequence[Life]) -> Iterator[str]:
    """The first seed of each policy: a mean of several lives would be the life of none."""
    seed = lives[0].seed
    shown = [one for one in lives if one.seed == seed]
    cards = shown[0].figures.capacity_milli
    curves: tuple[tuple[str, float, _Reader], ...] = (
        ("Allocation, % of the cards", 100.0, lambda one: 100 * one.held_milli / cards),
        ("Fragments, % of the cards", 0.0, lambda one: 100 * one.fragment_milli / cards),
        ("Jobs that wait", 0.0, lambda one: float(one.waiting)),
        ("Largest claim that would start, cards", 0.0, lambda one: one.largest_milli / 1000),
    )
    yield f"<h2>Over time (seed {seed})</h2>"
    for title, top, value in curves:
        yield f"<h3>{escape(title)}</h3>"
        yield _timeline(title, shown, top, value)


def _timeline(title: str, shown: Sequence[Life], top: float, value: _Reader) -> str:
    last = max((one.figures.timeline[-1].at_ns for one in shown if one.figures.timeline), default=0)
    scale, unit = unit_of(last / NS)
    at = [[sample.at_ns / NS / scale for sample in one.figures.timeline] for one in shown]
    series = [Series(one.policy, [value(sample) for sample in one.figures.timeline]) for one in shown]
    return lines(title, at, series, unit, top)


def _waits(lives: Sequence[Life]) -> Iterator[str]:
    yield "<h2>Waits until the first start</h2>"
    policies = list(dict.fromkeys(one.policy for one in lives))
    kinds = list(dict.fromkeys(kind for one in lives for kind in one.figures.waits))
    for kind in kinds:
        found = {policy: _of_kind(lives, policy, kind) for policy in policies}
        name = "all jobs" if kind == "all" else kind
        series = [Series(p, [_minutes(waits, part) for part in ("p50", "p95", "p99")]) for p, waits in found.items()]
        yield f"<h3>{escape(name)}: minutes at the 50th, 95th and 99th percentile</h3>"
        yield bars(f"waits of {name}", ["p50", "p95", "p99"], series)
        body = [_wait_row(policy, waits) for policy, waits in found.items()]
        yield table(["policy", "jobs", "never started", "mean min", "p50 min", "p95 min", "p99 min"], body)


def _of_kind(lives: Sequence[Life], policy: str, kind: str) -> list[Waits]:
    return [one.figures.waits[kind] for one in lives if one.policy == policy and kind in one.figures.waits]


def _minutes(waits: Sequence[Waits], name: str) -> float | None:
    found = mean([getattr(one, name) for one in waits])
    return None if found is None else found / 60


def _wait_row(policy: str, waits: Sequence[Waits]) -> list[str]:
    counts = [number(mean([getattr(one, name) for one in waits]), 0) for name in ("jobs", "unstarted")]
    return [policy, *counts, *(number(_minutes(waits, name), 1) for name in ("mean", "p50", "p95", "p99"))]


def _fairness(lives: Sequence[Life]) -> Iterator[str]:
    tenants = list(lives[0].figures.tenants)
    policies = list(dict.fromkeys(one.policy for one in lives))
    weights = [lives[0].figures.tenants[name].weight_pct for name in tenants]
    parts = [Series(policy, [_part(lives, policy, name) for name in tenants]) for policy in policies]
    yield "<h2>Fairness: card-time by tenant, %</h2>"
    yield bars("card-time by tenant beside their weights", tenants, [Series("weight", weights), *parts])
    yield '<p class="note">A tenant gets less than its weight where it asks for less.</p><h2>What each class could not '
    yield "use of the cards, %</h2>"
    classes = list(dict.fromkeys(name for one in lives for name in one.figures.fragment_by_class))
    found = [Series(policy, [_class(lives, policy, name) for name in classes]) for policy in policies]
    yield bars("fragments by class", classes, found)


def _part(lives: Sequence[Life], policy: str, tenant: str) -> float | None:
    return mean(
        [
            one.figures.tenants[tenant].part_pct
            for one in lives
            if one.policy == policy and tenant in one.figures.tenants
        ]
    )


def _class(lives: Sequence[Life], policy: str, name: str) -> float | None:
    mine = [one.figures.fragment_by_class for one in lives if one.policy == policy]
    return mean([found[name] for found in mine if name in found])
