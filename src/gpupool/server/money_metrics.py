"""What /metrics says of money: the latest hour that is charged, whether it closes, and budgets.

The values are those of the look at budgets each minute, so a scrape reads no books.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpupool.billing.budgets.standing import BudgetStanding
from gpupool.billing.charging.latest_hour import BooksGap, ChargedHour
from gpupool.billing.money import UNIT_MICRO

#: Labels of a budget; its scope may be a user, so that the name of the scope is none of them.
BUDGET = ("tenant", "budget")
#: After `gpupool_books_`; all are 0 where the books close.
GAP_GAUGES: Mapping[str, tuple[str, Callable[[BooksGap], int]]] = {
    "overbooked_milliseconds": (
        "Of the latest charged hour: card-milliseconds held beyond what a card has.",
        lambda gap: gap.overbooked_ms,
    ),
    "overbooked_mib_seconds": (
        "Of the latest charged hour: memory held beyond what a card has, MiB times seconds.",
        lambda gap: gap.overbooked_mib_s,
    ),
    "uncharged_milliseconds": (
        "Of the latest charged hour: card-milliseconds without a charge; below 0: charged twice.",
        lambda gap: gap.uncharged_ms,
    ),
}
#: After `gpupool_budget_`.
BUDGET_GAUGES: Mapping[str, tuple[str, Callable[[BudgetStanding], float | None]]] = {
    "spent_ratio": (
        "Part of the budget that is spent in its period.",
        lambda one: one.spent / one.budget.amount if one.budget.amount else None,
    ),
    "reached_percent": (
        "The highest threshold that is reached; 0 before the first.",
        lambda one: max((percent for percent, _ in one.list_reached()), default=0),
    ),
    "on_hold": ("1 where no job of the budget may start.", lambda one: int(one.is_on_hold)),
}


class MoneyMetrics(Collector):
    """Money of one pool, as it was at the last look."""

    def __init__(self, hour: ChargedHour | None, budgets: Iterable[BudgetStanding]) -> None:
        self._hour = hour
        self._budgets = tuple(budgets)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        if self._hour is not None:
            yield from _collect_hour(self._hour)
        for name, (text, read) in BUDGET_GAUGES.items():
            gauge = GaugeMetricFamily(f"gpupool_budget_{name}", text, labels=BUDGET)
            for standing in self._budgets:
                value = read(standing)
                if value is not None:
                    gauge.add_metric([standing.budget.tenant, standing.budget.id], value)
            yield gauge


def _collect_hour(hour: ChargedHour) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "gpupool_charged_hour_start_seconds",
        "Start of the latest hour that is charged, as seconds since 1970.",
        hour.start_s,
    )
    text = "Of the latest charged hour: card-milliseconds held by tenants, and what was left."
    kinds = GaugeMetricFamily("gpupool_charged_hour_card_milliseconds", text, labels=["kind"])
    for kind, milliseconds in hour.kinds.items():
        kinds.add_metric([kind], milliseconds)
    yield kinds
    text = "Of the latest charged hour: card-milliseconds that the tenant held."
    held = GaugeMetricFamily("gpupool_charged_hour_held_milliseconds", text, labels=["tenant"])
    text = "Of the latest charged hour: what the tenant pays, in units of the pool's currency."
    cost = GaugeMetricFamily("gpupool_charged_hour_cost", text, labels=["tenant"])
    for one in hour.tenants:
        held.add_metric([one.tenant], one.card_milliseconds)
        if one.cost_micro is not None:
            cost.add_metric([one.tenant], float(one.cost_micro / UNIT_MICRO))
    yield held
    yield cost
    if hour.gap is not None:
        for name, (text, measure) in GAP_GAUGES.items():
            yield GaugeMetricFamily(f"gpupool_books_{name}", text, measure(hour.gap))
