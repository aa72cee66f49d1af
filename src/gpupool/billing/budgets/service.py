"""Budgets as admins set them and their owners see them. Thread-safe."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, BudgetBelowSpent, StaleGeneration, UnknownBudget
from gpupool.base.ids import new_id
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.budgets.budget import MONEY, Budget, forecast_spending
from gpupool.billing.budgets.standing import (
    BudgetStanding,
    read_budgets,
    read_currency,
    read_past_days,
    read_standing,
    record_crossings,
)
from gpupool.billing.budgets.tables import budget_crossings, budgets
from gpupool.billing.charging.service import ChargeService
from gpupool.billing.periods import parse_zone
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.ending.owners import find_ended_owners
from gpupool.tenancy.tables import users
from gpupool.tenancy.tenants import find_project, find_tenant
from gpupool.wire.billing.budgets import BudgetIn, BudgetOut, SpendingForecastOut, ThresholdOut

#: Woken when budgets change, so that what waits for them is looked at.
TOPIC = "budgets"
#: Budgets of one pool: each is looked at every minute.
MOST_BUDGETS = 10_000


class BudgetService:
    """Budgets, and where they stand."""

    def __init__(self, store: Store, charging: ChargeService) -> None:
        self._store = store
        self._charging = charging
        store.commit_steps["budgets"] = _delete_of_ended_owners

    def list_all(self, caller: Principal) -> list[BudgetOut]:
        """List the budgets that the caller may see, by tenant, project and user."""
        with self._store.read() as connection:
            now_s = self._store.clock.now_ns() // NANOS_PER_SECOND
            found = read_budgets(connection, _match_caller(caller))
            return [_describe(connection, budget, now_s) for budget in found]

    def find(self, caller: Principal, budget_id: str) -> BudgetOut:
        """Find one budget. Raises UnknownBudget."""
        with self._store.read() as connection:
            now_s = self._store.clock.now_ns() // NANOS_PER_SECOND
            return _describe(connection, _find(connection, caller, budget_id), now_s)

    def put(self, caller: Principal, body: BudgetIn, generation: int | None = None) -> BudgetOut:
        """Set the budget of an owner: the one that it has is replaced.

        Args:
            caller: an admin.
            body: the whole budget.
            generation: what the caller read, 0: that the owner has none; None sets it whatever
                it is.

        Raises:
            StaleGeneration: the budget was changed, made or deleted since.
            BudgetBelowSpent: more is spent in this period already, and `force` is not given.
            BadOption: its thresholds contradict each other, or its time zone is unknown.
            UnknownTenant, UnknownProject, UnknownBudget: the owner is not known.
        """
        _check_thresholds(body)
        parse_zone(body.timezone)
        # Else the spending of the hours that wait for their charges would be read from the books
        # in the transaction.
        self._charging.catch_up()
        with self._store.write() as write:
            owner = _find_owner(write.connection, caller, body)
            old = _find_same(write.connection, owner)
            _check_generation(old, generation)
            values = _build_values(write, body, owner)
            if old is None:
                _check_number(write.connection)
                row_id = write.insert(budgets, **values, public_id=new_id("b"), generation=1)
            else:
                row_id = old.row_id
                values["generation"] = old.generation + 1
                write.execute(budgets.update().where(budgets.c.id == row_id).values(**values))
            budget = read_budgets(write.connection, budgets.c.id == row_id)[0]
            standing = read_standing(write.connection, budget, write.now_ns // NANOS_PER_SECOND)
            currency = read_currency(write.connection)
            if standing.spent > budget.amount and not body.force:
                raise _refuse_below(standing, currency)
            _forget_crossings(write, standing, old)
            record_crossings(write, [standing], currency)
            write.event(
                "budget.set",
                budget.id,
                tenant_id=budget.owner.tenant_id,
                data={
                    "scope": budget.scope,
                    "amount": budget.format_amount(budget.amount, currency),
                    "on_limit": budget.on_limit,
                },
            )
            write.announce(TOPIC)
            out = _describe(write.connection, budget, write.now_ns // NANOS_PER_SECOND)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete(self, caller: Principal, budget_id: str) -> None:
        """Delete a budget: nothing is held by it any more. Raises UnknownBudget."""
        with self._store.write() as write:
            _delete_budget(write, _find(write.connection, caller, budget_id))
            write.answer(204, None)


def _delete_budget(write: WriteTransaction, budget: Budget) -> None:
    ours = budget_crossings.c.budget_id == budget.row_id
    write.execute(budget_crossings.delete().where(ours))
    write.execute(budgets.delete().where(budgets.c.id == budget.row_id))
    write.event("budget.deleted", budget.id, tenant_id=budget.owner.tenant_id)
    write.announce(TOPIC)


def _delete_of_ended_owners(write: WriteTransaction) -> None:
    """Delete the budgets of tenants and users that end in this transaction. Idempotent."""
    ended = find_ended_owners(write)
    if not ended:
        return
    theirs = ended.match(budgets.c.tenant_id, budgets.c.user_id)
    for budget in read_budgets(write.connection, theirs):
        _delete_budget(write, budget)


def _match_caller(caller: Principal) -> sa.ColumnElement[bool]:
    """Match what the caller may see: a user sees no budget of another user, as in reports."""
    mine = match_visible(caller, budgets.c.tenant_id)
    if caller.role is not UserRole.USER:
        return mine
    return sa.and_(mine, sa.or_(budgets.c.user_id.is_(None), budgets.c.user_id == caller.user_id))


def _find(connection: sa.Connection, caller: Principal, budget_id: str) -> Budget:
    found = read_budgets(connection, budgets.c.public_id == budget_id, _match_caller(caller))
    if not found:
        raise UnknownBudget(f"no budget {budget_id[:63]!r}", hint="gpupool budget list")
    return found[0]


def _find_owner(connection: sa.Connection, caller: Principal, body: BudgetIn) -> dict[str, Any]:
    tenant = find_tenant(connection, caller, body.tenant)
    project_id = None
    user_id = None
    if body.project is not None:
        project_id = find_project(connection, tenant.id, body.project)
    if body.user is not None:
        query = sa.select(users.c.id).where(
            users.c.tenant_id == tenant.id,
            users.c.name == body.user,
            users.c.retired_ns.is_(None),
        )
        user_id = connection.execute(query).scalar_one_or_none()
        if user_id is None:
            raise UnknownBudget(
                f"no user {body.user!r} in tenant {body.tenant}", hint="gpupool user list"
            )
    return {"tenant_id": tenant.id, "project_id": project_id, "user_id": user_id}


def _find_same(connection: sa.Connection, owner: dict[str, Any]) -> Budget | None:
    same = []
    for name, value in owner.items():
        column = budgets.c[name]
        same.append(column.is_(None) if value is None else column == value)
    found = read_budgets(connection, *same)
    return found[0] if found else None


def _check_generation(old: Budget | None, generation: int | None) -> None:
    """Refuse a change of what is not there any more: two admins may edit at once."""
    known = 0 if old is None else old.generation
    if generation is not None and generation != known:
        raise StaleGeneration(
            f"the budget is at generation {known}, not {generation}",
            hint="look again: gpupool budget list",
            generation=known,
        )


def _check_number(connection: sa.Connection) -> None:
    count = connection.execute(sa.select(sa.func.count()).select_from(budgets)).scalar_one()
    if count >= MOST_BUDGETS:
        raise BadOption(
            f"the pool has {count} budgets, the most is {MOST_BUDGETS}",
            hint="gpupool budget delete ID",
        )


def _check_thresholds(body: BudgetIn) -> None:
    late = [percent for percent in body.warn_percents if percent >= body.hold_percent]
    if late:
        raise BadOption(
            f"a warning at {late[0]} % would come when no job starts any more, at "
            f"{body.hold_percent} %",
            hint="let warnings be below --hold-at",
        )
    if body.preempt_percent <= body.hold_percent:
        raise BadOption(
            f"jobs would end at {body.preempt_percent} %, and no job starts from "
            f"{body.hold_percent} % on",
            hint="let --preempt-at be above --hold-at",
        )


def _build_values(write: WriteTransaction, body: BudgetIn, owner: dict[str, Any]) -> dict[str, Any]:
    return {
        **owner,
        "period": body.period,
        "timezone": body.timezone,
        "unit": body.unit,
        "amount": body.amount,
        "warn_percents": sorted(set(body.warn_percents)),
        "hold_percent": body.hold_percent,
        "preempt_percent": body.preempt_percent,
        "grace_seconds": body.grace_seconds,
        "on_limit": body.on_limit,
        "changed_ns": write.now_ns,
    }


def _refuse_below(standing: BudgetStanding, currency: str) -> BudgetBelowSpent:
    budget = standing.budget
    spent = budget.format_amount(standing.spent, currency)
    return BudgetBelowSpent(
        f"{budget.scope} has spent {spent} in {standing.period.name}, more than "
        f"{budget.format_amount(budget.amount, currency)}",
        hint="give more, or set it all the same with --force: what follows happens at once",
        amount=budget.amount,
        spent=standing.spent,
    )


def _forget_crossings(
    write: WriteTransaction, standing: BudgetStanding, old: Budget | None
) -> None:
    """Forget thresholds of this period that are not reached by the budget as it is now.

    A threshold with a stronger effect than before is forgotten too: its grace period starts with
    this change.
    """
    before = {} if old is None else old.effects
    reached = []
    for percent, effect in standing.list_reached():
        if effect == "warn" or before.get(percent) == effect:
            reached.append(percent)
    write.execute(
        budget_crossings.delete().where(
            budget_crossings.c.budget_id == standing.budget.row_id,
            budget_crossings.c.period_start_s == standing.period.start_s,
            budget_crossings.c.percent.not_in(reached),
        )
    )


def _describe(connection: sa.Connection, budget: Budget, now_s: int) -> BudgetOut:
    standing = read_standing(connection, budget, now_s)
    period = standing.period
    crossings = sa.select(budget_crossings.c.percent, budget_crossings.c.at_ns).where(
        budget_crossings.c.budget_id == budget.row_id,
        budget_crossings.c.period_start_s == period.start_s,
    )
    reached = {row.percent: row.at_ns for row in connection.execute(crossings)}
    past = read_past_days(connection, budget, now_s)
    seen = forecast_spending(budget, standing.spent, past, now_s, period)
    return BudgetOut(
        id=budget.id,
        tenant=budget.tenant,
        project=budget.project,
        user=budget.user,
        period=budget.period,
        timezone=budget.timezone,
        unit=budget.unit,
        currency=read_currency(connection) if budget.unit == MONEY else "",
        amount=budget.amount,
        warn_percents=list(budget.warn_percents),
        hold_percent=budget.hold_percent,
        preempt_percent=budget.preempt_percent,
        grace_seconds=budget.grace_seconds,
        on_limit=budget.on_limit,
        generation=budget.generation,
        period_name=period.name,
        period_start_ns=period.start_s * NANOS_PER_SECOND,
        period_end_ns=period.end_s * NANOS_PER_SECOND,
        spent=standing.spent,
        spent_percent=standing.spent * 100 // budget.amount,
        on_hold=standing.is_on_hold,
        thresholds=[
            ThresholdOut(percent=percent, effect=effect, reached_ns=reached.get(percent))
            for percent, effect in budget.effects.items()
        ],
        forecast=seen
        and SpendingForecastOut(
            end=seen.end,
            low=seen.low,
            high=seen.high,
            runs_out_ns=seen.runs_out_s and seen.runs_out_s * NANOS_PER_SECOND,
        ),
    )
