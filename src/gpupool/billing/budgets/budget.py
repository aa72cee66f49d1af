"""A budget, where it stands in its period, and how it will go on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.billing.charging.spending import Spending, SpendingOwner
from gpupool.billing.money import format_money
from gpupool.billing.periods import Period
from gpupool.metering.books import DAY_S, HOUR_S

MONEY = "money"
GPU_HOURS = "gpu-hours"
#: Card-milliseconds of one GPU-hour.
GPU_HOUR_MS = HOUR_S * 1000
#: Days of the past from which a forecast is made.
FORECAST_DAYS = 7


@dataclass(frozen=True)
class Budget:
    """What an owner may spend in each period. `amount` is in micro-units or card-milliseconds."""

    row_id: int
    id: str
    owner: SpendingOwner
    tenant: str
    project: str | None
    user: str | None
    period: str
    timezone: str
    unit: str
    amount: int
    warn_percents: tuple[int, ...] = (50, 80)
    hold_percent: int = 100
    preempt_percent: int = 110
    grace_seconds: int = DAY_S
    on_limit: str = "hold"
    generation: int = 1

    @property
    def scope(self) -> str:
        """Whose budget it is, for people."""
        parts = [f"tenant {self.tenant}"]
        if self.project is not None:
            parts.append(f"project {self.project}")
        if self.user is not None:
            parts.append(f"user {self.user}")
        return ", ".join(parts)

    @property
    def effects(self) -> Mapping[int, str]:
        """What happens at each threshold: warn, hold or preempt."""
        found = dict.fromkeys(self.warn_percents, "warn")
        found[self.hold_percent] = "warn" if self.on_limit == "warn" else "hold"
        if self.on_limit == "preempt":
            found[self.preempt_percent] = "preempt"
        return dict(sorted(found.items()))

    def measure(self, spending: Spending) -> int:
        """Return what was spent in the unit of the budget, rounded down."""
        if self.unit == MONEY:
            return spending.micro.__floor__()
        return spending.card_milliseconds

    def has_reached(self, spent: int, percent: int) -> bool:
        """Whether so much is at least that part of the amount."""
        return spent * 100 >= self.amount * percent

    def format_amount(self, amount: int, currency: str) -> str:
        """Format an amount in the budget's unit."""
        if self.unit == MONEY:
            return f"{format_money(amount // 10_000 * 10_000)} {currency}".strip()
        return f"{amount / GPU_HOUR_MS:.2f} GPU-hours"

    def describe_hold(self, spent: int, period: Period, currency: str) -> str:
        """Describe why jobs of this budget wait."""
        percent = spent * 100 // self.amount if self.amount else 100
        return (
            f"the budget of {self.scope} for {period.name} is spent: "
            f"{self.format_amount(spent, currency)} of "
            f"{self.format_amount(self.amount, currency)} ({percent} %); the next period begins "
            f"{format_instant(period.end_s * NANOS_PER_SECOND)}"
        )


@dataclass(frozen=True)
class Forecast:
    """What will be spent at the end of the period, in the unit of the budget.

    `low` and `high` go on as the least and the most of the last days did.
    """

    end: int
    low: int
    high: int
    #: When the amount is reached as things go; None: not in this period.
    runs_out_s: int | None


def forecast_spending(
    budget: Budget, spent: int, by_day: Mapping[int, int], now_s: int, period: Period
) -> Forecast | None:
    """Forecast the end of the period from the spending of whole past days.

    Args:
        by_day: what each of the last days cost, by its number of days before now, from 1 on.

    Returns:
        None where no day has passed yet.
    """
    if not by_day:
        return None
    left_s = max(0, period.end_s - now_s)
    days = list(by_day.values())
    rate = Fraction(sum(days), len(days) * DAY_S)
    runs_out_s = None
    if spent >= budget.amount:
        runs_out_s = now_s
    elif rate > 0:
        after_s = now_s + (Fraction(budget.amount - spent) / rate).__ceil__()
        runs_out_s = after_s if after_s < period.end_s else None
    return Forecast(
        end=spent + round(rate * left_s),
        low=spent + round(Fraction(min(days), DAY_S) * left_s),
        high=spent + round(Fraction(max(days), DAY_S) * left_s),
        runs_out_s=runs_out_s,
    )
