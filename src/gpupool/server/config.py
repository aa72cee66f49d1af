"""What a server is told about itself at start, and the services that its routes use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpupool.allocations.routes.logs import JobLogs
from gpupool.allocations.service import Allocations
from gpupool.audit_log.service import AuditService
from gpupool.base.health import HealthChecks
from gpupool.billing.service import Billing
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
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
from gpupool.network.zones.reconcilers import ZoneReconcilers
from gpupool.notifications.sender import NotificationSender
from gpupool.notifications.service import SubscriptionService
from gpupool.notifications.settings import NotificationSettings
from gpupool.server.console.listener import ConsoleAddress
from gpupool.server.http.connections import PER_SOURCE
from gpupool.serving.service import ServingService
from gpupool.signon.service import SignonService
from gpupool.store.database import Store
from gpupool.templates.service import TemplateService
from gpupool.tenancy.service import TenancyService
from gpupool.workspaces.service import WorkspaceService


def _is_always_ready() -> bool:
    return True


@dataclass(frozen=True)
class ServerConfig:
    """Facts of this start. `ready` is the host's own part of readiness: what it started has come
    up."""

    state_dir: str
    listeners: tuple[str, ...] = ()
    started_ns: int = 0
    ready: Callable[[], bool] = _is_always_ready
    #: Requests of one user at a time.
    per_caller: int = PER_SOURCE
    #: Where the console is served; None where the host has no listener for it.
    console: ConsoleAddress | None = None


@dataclass(frozen=True)
class ServiceSet:
    """The rooms' services, as `app.state` names them."""

    store: Store
    tenancy: TenancyService
    fleet: FleetService
    metering: MeteringService
    allocations: Allocations
    workspaces: WorkspaceService
    billing: Billing
    networks: NetworkService
    network_quotas: NetworkQuotaService
    network_peerings: PeeringService
    network_reaches: ReachService
    security_groups: SecurityGroupService
    load_balancers: LoadBalancerService
    http_balancers: ProxyService
    port_forwards: PortForwardService
    floating_ips: FloatingIpService
    firewall: FirewallService
    gateway_pairs: GatewayPairService
    gateway_drills: GatewayDrillService
    bandwidth_limits: BandwidthLimitService
    dns_records: DnsRecordService
    network_verifications: NetworkVerificationService
    network_lines: LineService
    network_routes: RouteService
    flow_logs: FlowLogService
    network_mirrors: MirrorService
    planes: PlaneService
    plane_evidence: PlaneEvidenceService
    network_engine: NetworkEngineService
    network_reconciler: ZoneReconcilers
    subscriptions: SubscriptionService
    notification_settings: NotificationSettings
    notification_sender: NotificationSender
    signon: SignonService
    templates: TemplateService
    serving: ServingService
    audit: AuditService
    logs: JobLogs | None = None
    #: What `/healthz` and `gpupool doctor` ask; a room that can fail unseen adds one.
    checks: HealthChecks = field(default_factory=HealthChecks)
