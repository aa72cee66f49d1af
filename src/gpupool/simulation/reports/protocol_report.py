"""Render the paper's protocol as one HTML page and as rows for the terminal: means over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpupool.drawing.charts import PlotSeries, draw_lines
from gpupool.drawing.page import build_page, render_table
from gpupool.simulation.replay.demand_levels import LEVELS
from gpupool.simulation.replay.protocol import ProtocolResult
from gpupool.simulation.reports.report import describe_knowledge, format_number

#: Arrived percent for which the page's tables have a column.
_SHOWN = (20, 40, 60, 70, 80, 85, 90, 95, 100, 110, 120, 130)
#: (field of a level, title, top of the axis or 0 for the highest value).
_PLOTS = (
    ("allocation_pct", "Allocated, % of the cards", 100.0),
    ("fragment_pct", "Fragments, % of the cards", 0.0),
    ("fragment_ratio_pct", "Fragments, % of the idle cards", 100.0),
)


def list_policy_rows(results: Sequence[ProtocolResult]) -> list[dict[str, Any]]:
    """List one row per policy; None where no run has a record at that level."""
    seeds: dict[str, set[int]] = {}
    for one in results:
        seeds.setdefault(one.policy, set()).add(one.seed)
    rows: list[dict[str, Any]] = []
    for policy, of_policy in seeds.items():
        rows.append(
            {
                "policy": policy,
                "seeds": len(of_policy),
                "allocation_100": compute_level_mean(results, policy, 100, "allocation_pct"),
                "allocation_130": compute_level_mean(results, policy, 130, "allocation_pct"),
                "fragment_100": compute_level_mean(results, policy, 100, "fragment_pct"),
                "fragment_130": compute_level_mean(results, policy, 130, "fragment_pct"),
            }
        )
    return rows


def render_page(title: str, results: Sequence[ProtocolResult]) -> str:
    """Render one page: three plots over arrived demand, and their figures."""
    return build_page(f"{title} by the FGD paper's protocol", _render_parts(results))


def _render_parts(results: Sequence[ProtocolResult]) -> Iterator[str]:
    policies = _list_policies(results)
    seeds = list(dict.fromkeys(one.seed for one in results))
    yield f'<p class="note">Means over {len(seeds)} seeds ({seeds[0]} to {seeds[-1]}), by arrived demand in percent of '
    yield "the cards' compute. Jobs arrive one by one and never end; one that fits nowhere is dropped.</p>"
    for knowledge in dict.fromkeys(one.knowledge for one in results):
        yield f'<p class="note">Knowledge of the claims to come, {describe_knowledge(knowledge)}.</p>'
    for field, title, top in _PLOTS:
        series: list[PlotSeries] = []
        body: list[list[str]] = []
        for policy in policies:
            means = [compute_level_mean(results, policy, level, field) for level in LEVELS]
            series.append(PlotSeries(policy, means))
            # LEVELS are 0 to 130, so a level is its own place.
            body.append([policy, *(format_number(means[level]) for level in _SHOWN)])
        yield f"<h2>{title}</h2>" + draw_lines(
            title, [list(map(float, LEVELS))] * len(series), series, "%", top
        )
        yield render_table(["policy", *(f"{level} %" for level in _SHOWN)], body)


def compute_level_mean(
    results: Sequence[ProtocolResult], policy: str, arrived: int, field: str
) -> float | None:
    """Compute the mean over the seeds that have a record at that level, None where none has."""
    values: list[float] = []
    for one in results:
        if one.policy != policy:
            continue
        for level in one.levels:
            value = getattr(level, field) if level.arrived_pct == arrived else None
            if value is not None:
                values.append(value)
    return sum(values) / len(values) if values else None


def _list_policies(results: Sequence[ProtocolResult]) -> list[str]:
    return list(dict.fromkeys(one.policy for one in results))
