"""Where budgets stand: what is spent now, which thresholds that reaches, and what follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.billing.budgets.budget import FORECAST_DAYS, MONEY, Budget
from gpupool.billing.budgets.tables import budget_crossings, budgets
from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.spending import (
    Spending,
    SpendingOwner,
    read_adjustments,
    read_hours,
    read_spending,
)
from gpupool.billing.periods import Period, find_period, parse_zone
from gpupool.billing.prices.tables import price_lists
from gpupool.metering.books import DAY_S
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import projects, tenants, users


@dataclass(frozen=True)
class BudgetStanding:
    """A budget in its period of now; `spent` is in its unit."""

    budget: Budget
    period: Period
    spent: int

    @property
    def is_on_hold(self) -> bool:
        """Whether no job of the owner may start."""
        budget = self.budget
        return budget.on_limit != "warn" and budget.has_reached(self.spent, budget.hold_percent)

    def has_fallen_below(self, known: Collection[int]) -> bool:
        """Whether the threshold that ends jobs has a record and is reached no more.

        Args:
            known: thresholds of this period that have a record.
        """
        budget = self.budget
        percent = budget.preempt_percent
        is_known = budget.on_limit == "preempt" and percent in known
        return is_known and not budget.has_reached(self.spent, percent)

    def list_reached(self) -> list[tuple[int, str]]:
        """List the thresholds that are reached, with what happens at each."""
        effects = self.budget.effects.items()
        return [one for one in effects if self.budget.has_reached(self.spent, one[0])]


def read_budgets(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Budget]:
    """Read budgets by tenant, project and user."""
    query = (
        sa.select(
            budgets,
            tenants.c.name.label("tenant"),
            projects.c.name.label("project"),
            users.c.name.label("user"),
        )
        .select_from(budgets)
        .join(tenants, tenants.c.id == budgets.c.tenant_id)
        .outerjoin(projects, projects.c.id == budgets.c.project_id)
        .outerjoin(users, users.c.id == budgets.c.user_id)
        .where(*conditions)
        .order_by(tenants.c.name, projects.c.name, users.c.name, budgets.c.id)
    )
    return [build_budget(row) for row in connection.execute(query)]


def build_budget(row: Any) -> Budget:
    """Build a budget from its row, which has the names of its owner."""
    return Budget(
        row_id=row.id,
        id=row.public_id,
        owner=SpendingOwner(row.tenant_id, row.project_id, row.user_id),
        tenant=row.tenant,
        project=row.project,
        user=row.user,
        period=row.period,
        timezone=row.timezone,
        unit=row.unit,
        amount=row.amount,
        warn_percents=tuple(row.warn_percents),
        hold_percent=row.hold_percent,
        preempt_percent=row.preempt_percent,
        grace_seconds=row.grace_seconds,
        on_limit=row.on_limit,
        generation=row.generation,
    )


def read_standing(connection: sa.Connection, budget: Budget, now_s: int) -> BudgetStanding:
    """Read what a budget's owner has spent in the period of now."""
    period = find_period(now_s, budget.period, parse_zone(budget.timezone))
    spent = budget.measure(read_spending(connection, budget.owner, period.start_s, now_s))
    owner = budget.owner
    if budget.unit == MONEY and owner.project_id is None and owner.user_id is None:
        # Entries are of a tenant: a credit gives its budget room again.
        months = _list_months(period, parse_zone(budget.timezone))
        spent += read_adjustments(connection, owner.tenant_id, months)
    return BudgetStanding(budget, period, max(0, spent))


def _list_months(period: Period, zone: Any) -> list[str]:
    found = []
    second = period.start_s
    while second < period.end_s:
        month = find_period(second, "month", zone)
        found.append(month.name)
        second = month.end_s
    return found


def record_crossings(
    write: WriteTransaction, standings: Iterable[BudgetStanding], currency: str
) -> None:
    """Record the thresholds that are reached, each with one event a period. Idempotent.

    A threshold that ends jobs is deleted when a credit takes the spending below it. The next time
    it is reached, a new grace period starts.
    """
    for standing in standings:
        budget = standing.budget
        start_s = standing.period.start_s
        ours = (
            budget_crossings.c.budget_id == budget.row_id,
            budget_crossings.c.period_start_s == start_s,
        )
        known = set(write.execute(sa.select(budget_crossings.c.percent).where(*ours)).scalars())
        if standing.has_fallen_below(known):
            fallen = budget_crossings.c.percent == budget.preempt_percent
            write.execute(budget_crossings.delete().where(*ours, fallen))
        for percent, effect in standing.list_reached():
            if percent in known:
                continue
            write.execute(
                budget_crossings.insert().values(
                    budget_id=budget.row_id,
                    period_start_s=start_s,
                    percent=percent,
                    spent=standing.spent,
                    at_ns=write.now_ns,
                )
            )
            data = {
                "percent": percent,
                "effect": effect,
                "scope": budget.scope,
                "period": standing.period.name,
                "spent": budget.format_amount(standing.spent, currency),
                "amount": budget.format_amount(budget.amount, currency),
            }
            write.event("budget.crossed", budget.id, tenant_id=budget.owner.tenant_id, data=data)


def has_new_crossing(connection: sa.Connection, standing: BudgetStanding) -> bool:
    """Whether a threshold is reached that has no record yet, or one has a record and fell."""
    reached = {percent for percent, _ in standing.list_reached()}
    if not reached and standing.budget.on_limit != "preempt":
        return False
    query = sa.select(budget_crossings.c.percent).where(
        budget_crossings.c.budget_id == standing.budget.row_id,
        budget_crossings.c.period_start_s == standing.period.start_s,
    )
    known = set(connection.execute(query).scalars())
    return bool(reached - known) or standing.has_fallen_below(known)


def read_preempt_since(connection: sa.Connection, standing: BudgetStanding) -> int | None:
    """Read when the threshold was reached at which preemptible jobs end; None: it is not."""
    budget = standing.budget
    if budget.on_limit != "preempt" or not budget.has_reached(
        standing.spent, budget.preempt_percent
    ):
        return None
    query = sa.select(budget_crossings.c.at_ns).where(
        budget_crossings.c.budget_id == budget.row_id,
        budget_crossings.c.period_start_s == standing.period.start_s,
        budget_crossings.c.percent == budget.preempt_percent,
    )
    return connection.execute(query).scalar_one_or_none()


def read_past_days(connection: sa.Connection, budget: Budget, now_s: int) -> dict[int, int]:
    """Read what each of the last days cost, by its number before the last charges.

    Hours without charges are not 0: after a new price list those of weeks are made again.
    """
    marks = read_charge_marks(connection)
    if marks is None:
        return {}
    until_s = min(marks.next_s, now_s)
    first_s = max(marks.first_s, until_s - FORECAST_DAYS * DAY_S)
    hours = read_hours(connection, budget.owner, first_s, until_s)
    sums: dict[int, Spending] = {}
    for number in range(1, FORECAST_DAYS + 1):
        start_s = until_s - number * DAY_S
        if start_s >= first_s:
            sums[number] = Spending()
    for hour_s, spending in hours.items():
        number = (until_s - hour_s - 1) // DAY_S + 1
        if number in sums:
            sums[number] += spending
    return {number: budget.measure(spending) for number, spending in sums.items()}


def read_currency(connection: sa.Connection) -> str:
    """Read the currency of the pool's price lists; empty without any."""
    found = connection.execute(sa.select(price_lists.c.currency).limit(1)).scalar_one_or_none()
    return found or ""
