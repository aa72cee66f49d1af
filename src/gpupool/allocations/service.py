"""Puts the package together: the cache, the placer, and a service for each noun.

Routes and agents enter here: `jobs`, `resizes`, `suspensions`, `reservations`, `migrations`, `quotas`, `events`
serve users, `agents` serves the nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from gpupool.allocations.agents import AgentService
from gpupool.allocations.budgeting.watch import BudgetWatch
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.dependencies.settlement import DependencySettlement
from gpupool.allocations.faults.service import FaultService
from gpupool.allocations.handover.policies import LeaverPolicyService
from gpupool.allocations.handover.service import HandoverService
from gpupool.allocations.handover.settlement import LeaverSettlement
from gpupool.allocations.handover.stopping import LeaverStops
from gpupool.allocations.idle_suspension.policy import IdleSuspensionPolicy
from gpupool.allocations.idleness.service import IdleService
from gpupool.allocations.lifecycle.leases import Leases
from gpupool.allocations.lifecycle.overdue import OverdueJobs
from gpupool.allocations.migration.automatic import AutomaticDefragmentation
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.rightsizing.service import RightsizingService
from gpupool.allocations.schedules.service import ScheduleService
from gpupool.allocations.services.events import EventService
from gpupool.allocations.services.exposures import ExposureService
from gpupool.allocations.services.job_preview import JobPreviewService
from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.services.migrations import MigrationService
from gpupool.allocations.services.overviews import OverviewService
from gpupool.allocations.services.pool_map import PoolMapService
from gpupool.allocations.services.preview_costs import PreviewCosts
from gpupool.allocations.services.quotas import QuotaService
from gpupool.allocations.services.reservations import ReservationService
from gpupool.allocations.services.resizes import ResizeService
from gpupool.allocations.services.suspensions import SuspensionService
from gpupool.allocations.stop import StopService, find_live_jobs
from gpupool.allocations.store.tables import IS_LIVE, jobs
from gpupool.allocations.submission.create import SubmissionWriter
from gpupool.allocations.submission.network_join import count_group_submissions, count_network_jobs
from gpupool.allocations.submission.queue_limits import PENDING_LIMITS, PendingGate, PendingLimits
from gpupool.allocations.submission.unsettled_gangs import UnsettledGangs
from gpupool.allocations.views.event_feed import EventFeed
from gpupool.billing.service import Billing
from gpupool.fleet.lookup import list_agents
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
from gpupool.model.container import USUAL_POLICY, ContainerPolicy
from gpupool.model.job_limits import USUAL, JobLimits
from gpupool.model.suspension import USUAL_IDLE_RULES, IdleSuspensionRules
from gpupool.network.balancing.proxies import ProxyService
from gpupool.network.balancing.service import LoadBalancerService
from gpupool.network.engine_service import NetworkEngineService
from gpupool.network.firewall.service import FirewallService
from gpupool.network.floating.service import FloatingIpService
from gpupool.network.flows.service import FlowLogService
from gpupool.network.forwarding.service import PortForwardService
from gpupool.network.gateways.drills import GatewayDrillService
from gpupool.network.gateways.service import GatewayPairService
from gpupool.network.limiting.service import BandwidthLimitService
from gpupool.network.lines.service import LineService
from gpupool.network.mirroring.service import MirrorService
from gpupool.network.naming.service import DnsRecordService
from gpupool.network.peerings import PeeringService
from gpupool.network.planes.evidence import PlaneEvidenceService
from gpupool.network.planes.service import PlaneService
from gpupool.network.quotas.service import NetworkQuotaService
from gpupool.network.reach_service import ReachService
from gpupool.network.routing.service import RouteService
from gpupool.network.security.service import SecurityGroupService
from gpupool.network.service import NetworkService
from gpupool.network.verification.service import NetworkVerificationService
from gpupool.scheduling import (
    DEFAULT_POLICY,
    DEFAULT_PREEMPTION_RULES,
    DefragmentBudget,
    PreemptionRules,
)
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService


class Allocations:
    """Owns the cache, the placer and the services of this package. Thread-safe.

    Every call of a service is a few short transactions and blocks on nothing else.
    """

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        fleet: FleetService,
        metering: MeteringService,
        *,
        policy: str = DEFAULT_POLICY,
        rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
        job_limits: JobLimits = USUAL,
        container_policy: ContainerPolicy = USUAL_POLICY,
        pending_limits: PendingLimits = PENDING_LIMITS,
        quiet_budget: DefragmentBudget | None = None,
        idle_rules: IdleSuspensionRules = USUAL_IDLE_RULES,
        owner_uid: int | None = None,
        on_error: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self.store = store
        self.tenancy = tenancy
        self.fleet = fleet
        self.metering = metering
        self.job_limits = job_limits
        self.container_policy = container_policy
        self.cache = LedgerCache(policy, store.clock.now_ns)
        fleet.cards.list_owners = self.cache.list_card_owners
        self.placer = Placer(store, self.cache, metering, on_error, rules)
        self.quiet_moves = AutomaticDefragmentation(store, self.cache, self.placer, quiet_budget)
        self.idle_suspension = IdleSuspensionPolicy(
            store, metering, self.cache, self.placer, idle_rules
        )
        self.billing = Billing(store)
        self.budget_watch = BudgetWatch(store, self.billing, self.cache)
        self.idleness = IdleService(store, metering, self.cache, self.placer)
        self.faults = FaultService(store, fleet)
        self.rightsizing = RightsizingService(store, metering, self.cache, self.placer)
        self.leases = Leases(self._stop_expired)
        self.unsettled = UnsettledGangs(store, self.cache)
        self.networks = NetworkService(store, count_network_jobs)
        self.network_quotas = NetworkQuotaService(store, count_network_jobs)
        self.network_peerings = PeeringService(store, self.networks.find_network)
        self.security_groups = SecurityGroupService(
            store, self.networks.find_network, count_group_submissions
        )
        self.network_reaches = ReachService(store, self.networks.find_network)
        self.network_engine = NetworkEngineService(store, owner_uid, list_agents, fleet.is_silent)
        proxies = self.network_engine.proxies
        self.load_balancers = LoadBalancerService(
            store, self.networks.find_network, proxies, count_jobs=count_network_jobs
        )
        self.http_balancers = ProxyService(store, self.networks.find_network, proxies)
        self.dns_records = DnsRecordService(store, self.networks.find_network)
        self.exposures = ExposureService(store, proxies)
        self.port_forwards = PortForwardService(store, self.networks.find_network)
        self.floating_ips = FloatingIpService(store, self.networks.find_network)
        self.firewall = FirewallService(store, self.networks.find_network)
        self.gateway_pairs = GatewayPairService(store, fleet.is_silent, count_network_jobs)
        self.gateway_drills = GatewayDrillService(
            store, self.networks.find_network, fleet.is_silent
        )
        self.bandwidth_limits = BandwidthLimitService(store, self.networks.find_network)
        self.network_verifications = NetworkVerificationService(
            store, self.networks.find_network, self.network_engine.read_northbound
        )
        self.network_lines = LineService(store, self.networks.find_network)
        self.network_routes = RouteService(store, self.networks.find_network)
        self.network_mirrors = MirrorService(
            store, self.networks.find_network, self.network_engine.mirrors
        )
        self.flow_logs = FlowLogService(store, self.networks.find_network)
        self.planes = PlaneService(store)
        self.plane_evidence = PlaneEvidenceService(store)
        self.agents = AgentService(
            store,
            fleet,
            metering,
            self.cache,
            self.leases,
            self.unsettled,
            self.network_engine,
        )
        self.event_feed = EventFeed(store)
        self.stops = StopService(
            store, self.cache, self.leases, self.unsettled, self.placer.planner.describe_wait
        )
        self.dependencies = DependencySettlement(store, self.cache, self.unsettled.settle_all)
        store.commit_steps["dependencies"] = self.dependencies.settle_write
        self.placer.before_cycle = self.dependencies.settle_left
        self.overdue = OverdueJobs(store, self.stops.stop_jobs)
        gate = PendingGate(self.cache, pending_limits)
        writer = SubmissionWriter(store, tenancy, self.placer, self.unsettled, gate)
        self.jobs = JobService(
            store,
            tenancy,
            metering,
            self.cache,
            self.placer,
            self.leases,
            writer,
            self.stops,
            self.idle_suspension,
        )
        self.schedules = ScheduleService(store, tenancy, self.jobs)
        self.handovers = HandoverService(store, tenancy, metering, gate)
        self.leaver_policies = LeaverPolicyService(store)
        leaver_stops = LeaverStops(store, self.stops)
        self.leavers = LeaverSettlement(store, self.handovers, leaver_stops)
        self.previews = JobPreviewService(
            store, tenancy, self.cache, self.placer, gate, self.idle_suspension
        )
        self.suspensions = SuspensionService(store, metering, self.cache, self.placer)
        self.resizes = ResizeService(
            store, metering, self.cache, self.placer, self.agents, self.jobs
        )
        self.reservations = ReservationService(store, tenancy, self.placer)
        self.migrations = MigrationService(store, self.cache, self.placer)
        self.quotas = QuotaService(store, self.cache, self.placer, self.idle_suspension)
        self.overviews = OverviewService(store, fleet, metering, self.cache, self.quotas, self.jobs)
        self.jobs.choose_advice = self.rightsizing.book.choose_share
        self.previews.choose_advice = self.rightsizing.book.choose_share
        costs = PreviewCosts(store)
        self.previews.estimate_cost = costs.estimate_cost
        self.overviews.add_cost = costs.add_cost
        self.events = EventService(store)
        self.pool_map = PoolMapService(store, fleet, metering, self.cache, self.placer)

    def start(self) -> None:
        """Settle what the last server left, load the cache, renew leases, start to place."""
        self.unsettled.settle_all()
        self.budget_watch.read_holds()
        self.placer.start()
        self.idle_suspension.start()
        self.budget_watch.start()
        self.idleness.watch.start()
        self.rightsizing.watch.start()
        self.schedules.runner.start()
        self.leavers.start()
        with self.store.read() as connection:
            attached = connection.execute(
                sa.select(jobs.c.public_id).where(IS_LIVE, jobs.c.attached)
            ).scalars()
            self.leases.start(attached.all())

    def close(self) -> None:
        """Stop the threads of policies, budgets, schedules, leases and the placer. Jobs go on."""
        self.leavers.close()
        self.rightsizing.watch.close()
        self.idleness.watch.close()
        self.schedules.runner.close()
        self.budget_watch.close()
        self.idle_suspension.close()
        self.leases.close()
        self.placer.close()

    def _stop_expired(self, public_ids: list[str]) -> None:
        with self.store.read() as connection:
            live = find_live_jobs(connection, public_ids)
        self.stops.stop_jobs(live, "lease", None)
