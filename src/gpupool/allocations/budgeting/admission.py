"""The check of budgets in the transaction that starts jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import parse_reference
from gpupool.allocations.budgeting.holds import BudgetHold
from gpupool.allocations.store.tables import arrays, gangs, jobs
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.budgets.standing import (
    BudgetStanding,
    read_budgets,
    read_currency,
    read_standing,
    record_crossings,
)
from gpupool.billing.budgets.tables import budgets
from gpupool.billing.charging.spending import SpendingOwner
from gpupool.scheduling import Plan
from gpupool.store.database import WriteTransaction

#: Topics after which budgets may hold the jobs of other owners: the placer reads the queue again.
HOLDS_CHANGED = frozenset({"budget-holds", "queue"})


@dataclass(frozen=True)
class Admission:
    """What of a plan may start, and the budgets that hold the rest."""

    plan: Plan
    holds: tuple[BudgetHold, ...] = ()


def admit_plan(write: WriteTransaction, plan: Plan) -> Admission:
    """Leave out of a plan the jobs whose budget is spent at this moment.

    A gang is left out whole. With a job that is held, all evictions of the plan are left out: one
    may be for it, and the next plan has the others again. No job is evicted for one that is held.
    """
    beneficiaries = {eviction.beneficiary for eviction in plan.evictions}
    if not (plan.placements or beneficiaries) or not _has_budgets(write):
        return Admission(plan)
    names = {placement.job for placement in plan.placements}
    owners = _read_owners(write, names | beneficiaries)
    standings = _read_standings(write, {owner.tenant_id for owner in owners.values()})
    spent = [standing for standing in standings if standing.is_on_hold]
    held = {name for name, owner in owners.items() if _is_covered(spent, owner)}
    kept_out = held & beneficiaries
    for placement in plan.placements:
        if placement.job in held:
            kept_out.add(placement.gang or placement.job)
    if not kept_out:
        return Admission(plan)
    currency = read_currency(write.connection)
    record_crossings(write, spent, currency)
    left = [one for one in plan.placements if (one.gang or one.job) not in kept_out]
    holds = tuple(build_hold(standing, currency) for standing in spent)
    return Admission(replace(plan, placements=tuple(left), evictions=()), holds)


def build_hold(standing: BudgetStanding, currency: str) -> BudgetHold:
    """Build the hold of a spent budget."""
    budget = standing.budget
    return BudgetHold(
        budget.id,
        budget.tenant,
        budget.project,
        budget.owner.user_id,
        budget.describe_hold(standing.spent, standing.period, currency),
    )


def _has_budgets(write: WriteTransaction) -> bool:
    query = sa.select(budgets.c.id).where(budgets.c.on_limit != "warn").limit(1)
    return write.execute(query).first() is not None


def _read_standings(write: WriteTransaction, tenant_ids: Collection[int]) -> list[BudgetStanding]:
    now_s = write.now_ns // NANOS_PER_SECOND
    found = read_budgets(
        write.connection, budgets.c.tenant_id.in_(tenant_ids), budgets.c.on_limit != "warn"
    )
    return [read_standing(write.connection, budget, now_s) for budget in found]


def _is_covered(standings: Iterable[BudgetStanding], owner: SpendingOwner) -> bool:
    return any(_covers(standing, owner) for standing in standings)


def _covers(standing: BudgetStanding, owner: SpendingOwner) -> bool:
    payer = standing.budget.owner
    return (
        payer.tenant_id == owner.tenant_id
        and payer.project_id in (None, owner.project_id)
        and payer.user_id in (None, owner.user_id)
    )


def _read_owners(write: WriteTransaction, names: Iterable[str]) -> Mapping[str, SpendingOwner]:
    """Read the owners of jobs, of members of arrays that have no row yet, and of gangs."""
    job_ids: list[str] = []
    members: dict[str, str] = {}
    for name in names:
        reference = parse_reference(name)
        if reference is None:
            job_ids.append(name)
        else:
            members[name] = reference.array
    found = {row.public_id: _build_owner(row) for row in _read_rows(write, jobs, job_ids)}
    by_array = {
        row.public_id: _build_owner(row) for row in _read_rows(write, arrays, set(members.values()))
    }
    for name, array in members.items():
        if array in by_array:
            found[name] = by_array[array]
    for row in _read_gang_rows(write, [name for name in job_ids if name not in found]):
        found[row.public_id] = _build_owner(row)
    return found


def _read_gang_rows(write: WriteTransaction, ids: Collection[str]) -> list[Any]:
    if not ids:
        return []
    # All members of a gang have one owner.
    query = (
        sa.select(gangs.c.public_id, jobs.c.tenant_id, jobs.c.project_id, jobs.c.user_id)
        .join_from(gangs, jobs, jobs.c.gang_id == gangs.c.id)
        .where(gangs.c.public_id.in_(ids))
        .distinct()
    )
    return list(write.execute(query).all())


def _read_rows(write: WriteTransaction, table: sa.Table, ids: Collection[str]) -> list[Any]:
    if not ids:
        return []
    c = table.c
    query = sa.select(c.public_id, c.tenant_id, c.project_id, c.user_id)
    return list(write.execute(query.where(c.public_id.in_(ids))).all())


def _build_owner(row: Any) -> SpendingOwner:
    return SpendingOwner(row.tenant_id, row.project_id, row.user_id)
