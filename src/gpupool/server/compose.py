"""The rooms' services put together, each given the ones it stands on. Starts no thread."""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from gpupool.allocations.limits import PENDING_LIMITS, PendingLimits
from gpupool.allocations.log_routes import Logs
from gpupool.allocations.service import Allocations
from gpupool.allocations.tables import NOT_MADE, arrays, jobs
from gpupool.base.health import Checks, Finding, fail, well
from gpupool.base.supervised import register
from gpupool.fleet.service import Fleet
from gpupool.metering.service import Metering
from gpupool.model.job import LIVE
from gpupool.model.job_limits import USUAL, JobLimits
from gpupool.scheduling.policies import DEFAULT
from gpupool.scheduling.quiet_defrag import Budget
from gpupool.scheduling.victims import GENTLE, PreemptionRules
from gpupool.server.checks import clock_check, descriptors_check, nodes_check, threads_check
from gpupool.server.config import Services
from gpupool.store.database import Store
from gpupool.tenancy.accounts import Accounts
from gpupool.tenancy.service import Tenancy


def compose(
    store: Store,
    *,
    owner_uid: int | None = None,
    logs: Logs | None = None,
    accounts: Accounts | None = None,
    rules: PreemptionRules = GENTLE,
    policy: str = DEFAULT,
    job_limits: JobLimits = USUAL,
    pending_limits: PendingLimits = PENDING_LIMITS,
    quiet_budget: Budget | None = None,
) -> Services:
    """The services of one pool over its store; the caller begins and closes them."""
    tenancy = Tenancy(store, owner_uid=owner_uid, live_jobs=live_jobs, accounts=accounts)
    fleet = Fleet(store)
    metering = Metering(store)
    allocations = Allocations(
        store,
        tenancy,
        fleet,
        metering,
        policy=policy,
        rules=rules,
        job_limits=job_limits,
        pending_limits=pending_limits,
        quiet_budget=quiet_budget,
    )
    checks = Checks()
    checks.add("threads", threads_check(register))
    checks.add("open files", descriptors_check)
    checks.add("nodes", nodes_check(fleet.silent_nodes))
    checks.add("clock", clock_check(store.clock))
    checks.add("jobs", allocations.overdue.check)
    checks.add("placement", partial(placement_check, allocations))
    return Services(store, tenancy, fleet, metering, allocations, logs, checks)


def placement_check(allocations: Allocations) -> Finding:
    """Whether the pool's own placement policy decides; another one places while it fails."""
    fault = allocations.placer.planner.fault
    if fault is None:
        return well(f"policy {allocations.mirror.policy} decides")
    following = "jobs go on being placed; report the error and its line, and see  gpupool events"
    return fail(f"{fault.sentence}: {fault.error}", following)


def live_jobs(connection: sa.Connection, tenant_id: int | None, user_id: int | None) -> int:
    """How many jobs of a tenant or user are pending, starting or running."""
    query = sa.select(sa.func.count()).where(jobs.c.state.in_([str(state) for state in sorted(LIVE)]))
    waiting = NOT_MADE
    if tenant_id is not None:
        query = query.where(jobs.c.tenant_id == tenant_id)
        waiting = waiting.where(arrays.c.tenant_id == tenant_id)
    if user_id is not None:
        query = query.where(jobs.c.user_id == user_id)
        waiting = waiting.where(arrays.c.user_id == user_id)
    return int(connection.execute(query).scalar_one() + connection.execute(waiting).scalar_one())
