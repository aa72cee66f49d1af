"""Render a simulation as one HTML page: tables, and plots over time, by class and by tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.drawing.charts import PlotSeries, draw_bars, draw_lines
from gpupool.drawing.page import build_page, render_table
from gpupool.simulation.replay.foreknowledge import ORACLE
from gpupool.simulation.replay.measure import PoolSample, WaitSummary
from gpupool.simulation.studies.study import (
    SimulatedLife,
    StudyQuestion,
    compute_mean,
    list_policy_rows,
)
from gpupool.simulation.traces.nodes import measure_pool
from gpupool.simulation.traces.synthetic import list_parameters

_Reader = Callable[[PoolSample], float]
#: Seconds of a day.
_DAY = 86400
#: (least seconds, seconds of the unit, its sign): a unit is used from two of it on.
_UNITS = ((2 * _DAY, _DAY, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


def choose_unit(seconds: float) -> tuple[int, str]:
    """Choose the unit for a length of time; return its seconds and its sign."""
    for least, scale, unit in _UNITS[:-1]:
        if seconds >= least:
            return scale, unit
    return _UNITS[-1][1:]


def render_page(question: StudyQuestion, lives: Sequence[SimulatedLife]) -> str:
    """Render the page of all cases."""
    title = f"Simulation of {question.source}"
    return build_page(
        title,
        [
            *_render_facts(question),
            *_render_summary(lives),
            *_render_timelines(lives),
            *_render_waits(lives),
            *_render_fairness(lives),
        ],
    )


def format_number(value: float | None, digits: int = 2) -> str:
    """Format a figure: `93.08`; unknown is `--`."""
    return "--" if value is None else f"{value:.{digits}f}"


def describe_knowledge(knowledge: str) -> str:
    """Describe for a reader whether a pool could know what the policies knew."""
    if knowledge == ORACLE:
        return "oracle: the whole trace was counted before its first claim, which no pool can"
    return "online: learnt from the claims that had come, as in a pool"


def _render_facts(question: StudyQuestion) -> Iterator[str]:
    size = measure_pool(question.nodes)
    models = ", ".join(size.models)
    facts = [
        ("pool", f"{size.nodes} nodes, {size.cards} cards ({models})"),
        ("policies", ", ".join(question.policies)),
        ("knowledge of the claims to come", describe_knowledge(question.knowledge)),
        ("seeds", ", ".join(map(str, question.seeds))),
    ]
    if question.synthetic is not None:
        made = list_parameters(question.synthetic) | {"seed": "as above"}
        facts.append(("generator", ", ".join(f"{name}={value}" for name, value in made.items())))
    yield render_table(["what", ""], facts, words=2)


def _render_summary(lives: Sequence[SimulatedLife]) -> Iterator[str]:
    titles = [
        "policy",
        "allocation %",
        "of use %",
        "fragments %",
        "of free %",
        "largest",
        "whole nodes",
        "evictions",
    ]
    titles += ["lost card h", "never started", "refused", "promised starts", "broken"]
    yield "<h2>In short</h2>" + render_table(
        titles, [_list_summary_cells(row, lives) for row in list_policy_rows(lives)]
    )
    yield '<p class="note">Means over the seeds, of the time in which work arrives. Fragments: what is free and of no '
    yield "use to the classes of jobs that are expected. Largest: cards one claim could get. Whole nodes: wholly free."
    yield " Of use: without work that evictions lost.</p>"


def _list_summary_cells(row: Mapping[str, object], lives: Sequence[SimulatedLife]) -> list[str]:
    columns: list[list[float | None]] = [[] for _ in range(12)]
    for life in lives:
        if life.policy != row["policy"]:
            continue
        figures = life.figures
        # In the order of the titles of `_render_summary`.
        values = (
            figures.allocation_pct,
            figures.utilisation_pct,
            figures.fragment_pct,
            figures.fragment_ratio_pct,
            figures.largest_cards,
            figures.whole_nodes,
            figures.evictions,
            figures.lost_card_hours,
            figures.unstarted,
            sum(figures.refused.values()),
            figures.promises.kept + figures.promises.broken,
            figures.promises.broken,
        )
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return [str(row["policy"]), *(format_number(compute_mean(column)) for column in columns)]


def _render_timelines(lives: Sequence[SimulatedLife]) -> Iterator[str]:
    """Render the first seed of each policy: a mean of several lives would be the life of none."""
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
        yield _plot_timeline(title, shown, top, value)


def _plot_timeline(title: str, shown: Sequence[SimulatedLife], top: float, value: _Reader) -> str:
    last = max((one.figures.timeline[-1].at_ns for one in shown if one.figures.timeline), default=0)
    scale, unit = choose_unit(last / NANOS_PER_SECOND)
    at: list[list[float]] = []
    series: list[PlotSeries] = []
    for one in shown:
        timeline = one.figures.timeline
        at.append([sample.at_ns / NANOS_PER_SECOND / scale for sample in timeline])
        series.append(PlotSeries(one.policy, list(map(value, timeline))))
    return draw_lines(title, at, series, unit, top)


def _render_waits(lives: Sequence[SimulatedLife]) -> Iterator[str]:
    yield "<h2>Waits until the first start</h2>"
    policies = list(dict.fromkeys(one.policy for one in lives))
    # In the order in which kinds come: a life has only the kinds of its jobs.
    kinds: dict[str, None] = {}
    for one in lives:
        kinds.update(dict.fromkeys(one.figures.waits))
    for kind in kinds:
        name = "all jobs" if kind == "all" else kind
        series: list[PlotSeries] = []
        body: list[list[str]] = []
        for policy in policies:
            waits = _select_waits(lives, policy, kind)
            body.append(_list_wait_cells(policy, waits))
            minutes = [_compute_minutes(waits, part) for part in ("p50", "p95", "p99")]
            series.append(PlotSeries(policy, minutes))
        yield f"<h3>{escape(name)}: minutes at the 50th, 95th and 99th percentile</h3>"
        yield draw_bars(f"waits of {name}", ["p50", "p95", "p99"], series)
        yield render_table(
            ["policy", "jobs", "never started", "mean min", "p50 min", "p95 min", "p99 min"], body
        )


def _select_waits(lives: Sequence[SimulatedLife], policy: str, kind: str) -> list[WaitSummary]:
    waits: list[WaitSummary] = []
    for one in lives:
        if one.policy == policy and kind in one.figures.waits:
            waits.append(one.figures.waits[kind])
    return waits


def _compute_minutes(waits: Sequence[WaitSummary], name: str) -> float | None:
    found = compute_mean([getattr(one, name) for one in waits])
    return None if found is None else found / 60


def _list_wait_cells(policy: str, waits: Sequence[WaitSummary]) -> list[str]:
    cells = [policy]
    for name in ("jobs", "unstarted"):
        cells.append(format_number(compute_mean([getattr(one, name) for one in waits]), 0))
    for name in ("mean", "p50", "p95", "p99"):
        cells.append(format_number(_compute_minutes(waits, name), 1))
    return cells


def _render_fairness(lives: Sequence[SimulatedLife]) -> Iterator[str]:
    tenants = list(lives[0].figures.tenants)
    policies = list(dict.fromkeys(one.policy for one in lives))
    weights = [lives[0].figures.tenants[name].weight_pct for name in tenants]
    classes: dict[str, None] = {}
    for one in lives:
        classes.update(dict.fromkeys(one.figures.fragment_by_class))
    parts = [PlotSeries("weight", weights)]
    fragments: list[PlotSeries] = []
    for policy in policies:
        of_tenants = [_compute_tenant_part(lives, policy, name) for name in tenants]
        parts.append(PlotSeries(policy, of_tenants))
        of_classes = [_compute_class_fragments(lives, policy, name) for name in classes]
        fragments.append(PlotSeries(policy, of_classes))
    yield "<h2>Fairness: card-time by tenant, %</h2>"
    yield draw_bars("card-time by tenant beside their weights", tenants, parts)
    yield '<p class="note">A tenant gets less than its weight where it asks for less.</p><h2>What each class could not '
    yield "use of the cards, %</h2>"
    yield draw_bars("fragments by class", list(classes), fragments)


def _compute_tenant_part(lives: Sequence[SimulatedLife], policy: str, tenant: str) -> float | None:
    parts: list[float | None] = []
    for one in lives:
        if one.policy == policy and tenant in one.figures.tenants:
            parts.append(one.figures.tenants[tenant].part_pct)
    return compute_mean(parts)


def _compute_class_fragments(
    lives: Sequence[SimulatedLife], policy: str, name: str
) -> float | None:
    percents: list[float | None] = []
    for one in lives:
        if one.policy == policy and name in one.figures.fragment_by_class:
            percents.append(one.figures.fragment_by_class[name])
    return compute_mean(percents)
