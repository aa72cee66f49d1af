"""Put the rooms' services together, each given the ones it stands on. Starts no thread."""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa

from gpupool.allocations.routes.logs import JobLogs
from gpupool.allocations.service import Allocations
from gpupool.allocations.store.tables import NOT_MADE, arrays, jobs
from gpupool.allocations.submission.queue_limits import PENDING_LIMITS, PendingLimits
from gpupool.audit_log.retention import KEEP_DAYS
from gpupool.audit_log.service import AuditService
from gpupool.base.health import CheckFinding, HealthChecks, fail, well
from gpupool.base.supervision import register
from gpupool.billing.charging.reserved_ranges import read_unused_time
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
from gpupool.model.container import USUAL_POLICY, ContainerPolicy
from gpupool.model.job import LIVE
from gpupool.model.job_limits import USUAL, JobLimits
from gpupool.model.suspension import USUAL_IDLE_RULES, IdleSuspensionRules
from gpupool.network.zones.reconcilers import ZoneReconcilers
from gpupool.notifications.sender import NotificationSender, send_test
from gpupool.notifications.service import SubscriptionService
from gpupool.notifications.settings import NotificationSettings
from gpupool.scheduling import (
    DEFAULT_POLICY,
    DEFAULT_PREEMPTION_RULES,
    DefragmentBudget,
    PreemptionRules,
)
from gpupool.server.checks import clock_check, descriptors_check, nodes_check, threads_check
from gpupool.server.config import ServiceSet
from gpupool.serving.service import ServingService
from gpupool.signon.service import SignonService
from gpupool.store.database import Store
from gpupool.templates.service import TemplateService
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.service import TenancyService
from gpupool.workspaces.service import WorkspaceService


def compose_services(
    store: Store,
    *,
    owner_uid: int | None = None,
    logs: JobLogs | None = None,
    accounts: UnixAccounts | None = None,
    rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
    policy: str = DEFAULT_POLICY,
    job_limits: JobLimits = USUAL,
    container_policy: ContainerPolicy = USUAL_POLICY,
    pending_limits: PendingLimits = PENDING_LIMITS,
    quiet_budget: DefragmentBudget | None = None,
    idle_rules: IdleSuspensionRules = USUAL_IDLE_RULES,
    audit_keep_days: int = KEEP_DAYS,
) -> ServiceSet:
    """Make the services of one pool over its store; the caller begins and closes them."""
    tenancy = TenancyService(
        store, owner_uid=owner_uid, live_jobs=count_live_jobs, accounts=accounts
    )
    fleet = FleetService(store)
    metering = MeteringService(store, read_unused_time)
    allocations = Allocations(
        store,
        tenancy,
        fleet,
        metering,
        policy=policy,
        rules=rules,
        job_limits=job_limits,
        container_policy=container_policy,
        pending_limits=pending_limits,
        quiet_budget=quiet_budget,
        idle_rules=idle_rules,
        owner_uid=owner_uid,
    )
    checks = HealthChecks()
    checks.add("threads", threads_check(register))
    checks.add("open files", descriptors_check)
    checks.add("nodes", nodes_check(fleet.list_silent_nodes))
    checks.add("clock", clock_check(store.clock))
    checks.add("jobs", allocations.overdue.has_overdue_jobs)
    checks.add("placement", partial(check_placement, allocations))
    engine = allocations.network_engine
    workspaces = WorkspaceService(store, allocations, fleet)
    templates = TemplateService(store, tenancy)
    checks.add("networks", engine.check)
    return ServiceSet(
        store,
        tenancy,
        fleet,
        metering,
        allocations,
        workspaces,
        allocations.billing,
        allocations.networks,
        allocations.network_quotas,
        allocations.network_peerings,
        allocations.network_reaches,
        allocations.security_groups,
        allocations.load_balancers,
        allocations.http_balancers,
        allocations.port_forwards,
        allocations.floating_ips,
        allocations.firewall,
        allocations.gateway_pairs,
        allocations.gateway_drills,
        allocations.bandwidth_limits,
        allocations.dns_records,
        allocations.network_verifications,
        allocations.network_lines,
        allocations.network_routes,
        allocations.flow_logs,
        allocations.network_mirrors,
        allocations.planes,
        allocations.plane_evidence,
        engine,
        ZoneReconcilers(store, engine.read_northbound, engine.departure),
        SubscriptionService(store, partial(send_test, store)),
        NotificationSettings(store),
        NotificationSender(store),
        SignonService(store, tenancy, count_live_jobs, allocations.leavers, accounts),
        templates,
        ServingService(store, tenancy, allocations, templates, workspaces),
        AuditService(store, audit_keep_days),
        logs,
        checks,
    )


def check_placement(allocations: Allocations) -> CheckFinding:
    """Check that the pool's own placement policy decides; another one places while it fails."""
    fault = allocations.placer.planner.fault
    if fault is None:
        return well(f"policy {allocations.cache.policy} decides")
    following = "jobs go on being placed; report the error and its line, and see  gpupool events"
    return fail(f"{fault.sentence}: {fault.error}", following)


def count_live_jobs(connection: sa.Connection, tenant_id: int | None, user_id: int | None) -> int:
    """Count the jobs of a tenant or user that are pending, starting or running."""
    query = sa.select(sa.func.count()).where(
        jobs.c.state.in_([str(state) for state in sorted(LIVE)])
    )
    # Jobs of an array that have no row yet wait as others do.
    waiting = NOT_MADE
    if tenant_id is not None:
        query = query.where(jobs.c.tenant_id == tenant_id)
        waiting = waiting.where(arrays.c.tenant_id == tenant_id)
    if user_id is not None:
        query = query.where(jobs.c.user_id == user_id)
        waiting = waiting.where(arrays.c.user_id == user_id)
    return int(connection.execute(query).scalar_one() + connection.execute(waiting).scalar_one())
