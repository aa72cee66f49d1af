"""The board of money: the latest charged hour, budgets, and whether the books close."""

from __future__ import annotations

from boards.panels import Board, Panel, Query, Row, Variable
from boards.selectors import JOB, add_up, select

#: Milliseconds of an hour: card-milliseconds of one GPU-hour.
HOUR_MS = 3_600_000


def _hour(name: str, *labels: str) -> str:
    return select(f"gpupool_charged_hour_{name}", *labels)


def _budget(name: str) -> str:
    return select(f"gpupool_budget_{name}", "tenant")


def _build_gap(title: str, family: str, unit: str) -> Panel:
    return Panel(
        "stat",
        title,
        (Query(select(f"gpupool_books_{family}")),),
        unit,
        8,
        description="0 where the books of the latest charged hour close.",
        red_from=1,
        red_below=True,
    )


MONEY = Board(
    "money",
    "Money",
    "What the latest charged hour cost, where budgets stand, and whether the books close.",
    (JOB, Variable("tenant", ("gpupool_tenant_held_milli",))),
    (
        Row(
            "The latest charged hour",
            (
                Panel(
                    "stat",
                    "Begins",
                    (Query(f"max({_hour('start_seconds')}) * 1000"),),
                    "dateTimeAsIso",
                    6,
                ),
                Panel(
                    "stat",
                    "Cost",
                    (Query(f"sum({_hour('cost', 'tenant')})"),),
                    "short",
                    6,
                    "In the currency of the price lists; tenants without a price are not in it.",
                ),
                Panel(
                    "stat",
                    "Sold",
                    (
                        Query(
                            f"sum({select('gpupool_charged_hour_card_milliseconds', kind='tenant')})"
                            f" / sum({_hour('card_milliseconds')})"
                        ),
                    ),
                    "percentunit",
                    6,
                ),
                Panel(
                    "stat",
                    "Budgets on hold",
                    (Query(f"sum({_budget('on_hold')})"),),
                    width=6,
                    red_from=1,
                ),
            ),
        ),
        Row(
            "By hour",
            (
                Panel(
                    "timeseries",
                    "Cost of an hour, by tenant",
                    (Query(add_up("tenant", _hour("cost", "tenant")), "{{tenant}}"),),
                    is_stacked=True,
                ),
                Panel(
                    "timeseries",
                    "GPU-hours of an hour, by tenant",
                    (
                        Query(
                            f"{add_up('tenant', _hour('held_milliseconds', 'tenant'))} / {HOUR_MS}",
                            "{{tenant}}",
                        ),
                    ),
                    is_stacked=True,
                ),
                Panel(
                    "timeseries",
                    "GPU-hours of an hour: sold, idle, overhead, unmanaged",
                    (
                        Query(
                            f"{add_up('kind', _hour('card_milliseconds'))} / {HOUR_MS}", "{{kind}}"
                        ),
                    ),
                    is_stacked=True,
                ),
            ),
        ),
        Row(
            "Budgets",
            (
                Panel(
                    "bargauge",
                    "Spent",
                    (Query(_budget("spent_ratio"), "{{tenant}} {{budget}}"),),
                    "percentunit",
                    12,
                    red_from=1,
                ),
                Panel(
                    "timeseries",
                    "Spent",
                    (Query(_budget("spent_ratio"), "{{tenant}} {{budget}}"),),
                    "percentunit",
                    12,
                ),
            ),
        ),
        Row(
            "Books",
            (
                _build_gap("Compute held twice", "overbooked_milliseconds", "ms"),
                _build_gap("Memory held twice, MiB s", "overbooked_mib_seconds", "short"),
                _build_gap("Compute without a charge", "uncharged_milliseconds", "ms"),
            ),
        ),
    ),
)
