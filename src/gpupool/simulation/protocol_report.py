"""The paper's protocol as one HTML page, and as rows for the terminal: means over seeds, level by level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpupool.drawing.charts import Series, lines
from gpupool.drawing.page import page, table
from gpupool.simulation.protocol import LEVELS, Level, Result
from gpupool.simulation.report import described_knowledge, number

_SHOWN = (20, 40, 60, 70, 80, 85, 90, 95, 100, 110, 120, 130)
_PLOTS = (
    ("allocation_pct", "Allocated, % of the cards", 100.0),
    ("fragment_pct", "Fragments, % of the cards", 0.0),
    ("fragment_ratio_pct", "Fragments, % of the idle cards", 100.0),
)


def rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per policy; None where no run has a record at that level."""
    return [
        {
            "policy": policy,
            "seeds": len({one.seed for one in results if one.policy == policy}),
            "allocation_100": at(results, policy, 100, "allocation_pct"),
            "allocation_130": at(results, policy, 130, "allocation_pct"),
            "fragment_100": at(results, policy, 100, "fragment_pct"),
            "fragment_130": at(results, policy, 130, "fragment_pct"),
        }
        for policy in _policies(results)
    ]


def html(title: str, results: Sequence[Result]) -> str:
    """One page: three plots over arrived demand, and their figures."""
    return page(f"{title} by the FGD paper's protocol", _parts(results))


def _parts(results: Sequence[Result]) -> Iterator[str]:
    policies = _policies(results)
    seeds = list(dict.fromkeys(one.seed for one in results))
    yield f'<p class="note">Means over {len(seeds)} seeds ({seeds[0]} to {seeds[-1]}), by arrived demand in percent of '
    yield "the cards' compute. Jobs arrive one by one and never end; one that fits nowhere is dropped.</p>"
    for knowledge in dict.fromkeys(one.knowledge for one in results):
        yield f'<p class="note">Knowledge of the claims to come, {described_knowledge(knowledge)}.</p>'
    for field, title, top in _PLOTS:
        series = [Series(policy, [at(results, policy, level, field) for level in LEVELS]) for policy in policies]
        yield f"<h2>{title}</h2>" + lines(title, [list(map(float, LEVELS))] * len(series), series, "%", top)
        body = [[p, *(number(at(results, p, level, field)) for level in _SHOWN)] for p in policies]
        yield table(["policy", *(f"{level} %" for level in _SHOWN)], body)


def at(results: Sequence[Result], policy: str, arrived: int, field: str) -> float | None:
    """The mean over the seeds that have a record at that level, None where none has."""
    levels: list[Level] = [
        level for one in results if one.policy == policy for level in one.levels if level.arrived_pct == arrived
    ]
    known = [value for level in levels if (value := getattr(level, field)) is not None]
    return sum(known) / len(known) if known else None


def _policies(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(one.policy for one in results))
