"""The web application: every room's routes behind the same layers.

From the outside in: request metrics (counts), problems (errors, version), the console's files,
compression, leadership (this server's lease holds), durable answers (what is told is on disk),
audit (records of acts), authentication, services (requests to replicas), in flight (so many at a
time), request bodies (size, text), idempotency keys, then FastAPI. A stranger's request is refused
before its body is read and before its route is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from fastapi import APIRouter, FastAPI

from gpupool.allocations.routes.defragmentation import router as defrag_router
from gpupool.allocations.routes.events import router as event_router
from gpupool.allocations.routes.exposures import router as exposure_router
from gpupool.allocations.routes.faults import router as fault_router
from gpupool.allocations.routes.forecast import router as planning_router
from gpupool.allocations.routes.handover import router as handover_router
from gpupool.allocations.routes.idleness import router as idle_router
from gpupool.allocations.routes.jobs import router as allocations_router
from gpupool.allocations.routes.leavers import router as leaver_router
from gpupool.allocations.routes.logs import router as log_router
from gpupool.allocations.routes.nodes import router as node_router
from gpupool.allocations.routes.pool_views import router as pool_view_router
from gpupool.allocations.routes.previews import router as preview_router
from gpupool.allocations.routes.reservations import router as reservation_router
from gpupool.allocations.routes.rightsizing import router as advice_router
from gpupool.allocations.routes.schedules import router as schedule_router
from gpupool.api.late_routes import place_under
from gpupool.audit_log.routes import router as audit_router
from gpupool.billing.budgets.routes import router as budget_router
from gpupool.billing.documents.routes import router as document_router
from gpupool.billing.prices.routes import router as price_router
from gpupool.fleet.routes import router as fleet_router
from gpupool.metering.cluster_routes import router as cluster_router
from gpupool.metering.energy.routes import router as energy_router
from gpupool.metering.routes import router as metering_router
from gpupool.network.balancing.routes import router as balancing_router
from gpupool.network.firewall.routes import router as firewall_router
from gpupool.network.floating.routes import router as floating_router
from gpupool.network.flows.routes import router as flows_router
from gpupool.network.forwarding.routes import router as forwarding_router
from gpupool.network.gateways.routes import router as gateway_router
from gpupool.network.limiting.routes import router as limiting_router
from gpupool.network.lines.routes import router as line_router
from gpupool.network.mirroring.routes import router as mirroring_router
from gpupool.network.naming.routes import router as naming_router
from gpupool.network.planes.routes import router as plane_router
from gpupool.network.quotas.routes import router as network_quotas_router
from gpupool.network.routes import router as network_router
from gpupool.network.routing.routes import router as routing_router
from gpupool.network.security.routes import router as security_router
from gpupool.network.verification.routes import router as verification_router
from gpupool.notifications.routes import router as notification_router
from gpupool.server import routes
from gpupool.server.config import ServerConfig, ServiceSet
from gpupool.server.console.files import ConsoleFiles, find_static
from gpupool.server.console.login_routes import router as login_router
from gpupool.server.console.session_routes import router as session_router
from gpupool.server.http import problems
from gpupool.server.metrics import router as metrics_router
from gpupool.server.middleware.acknowledge import DurableAnswerMiddleware
from gpupool.server.middleware.audit import AuditMiddleware
from gpupool.server.middleware.auth import AuthenticationMiddleware, LoginBrake
from gpupool.server.middleware.compression import CompressionMiddleware
from gpupool.server.middleware.idempotency import IdempotencyMiddleware
from gpupool.server.middleware.in_flight import InFlightMiddleware
from gpupool.server.middleware.leadership import LeadershipMiddleware
from gpupool.server.middleware.request_bodies import RequestBodyMiddleware
from gpupool.server.middleware.request_metrics import RequestMetricsMiddleware
from gpupool.server.openapi import extend_openapi
from gpupool.server.secret_routes import router as secret_router
from gpupool.server.signon_routes import router as signon_doors
from gpupool.serving.door import PREFIX as SERVICE_PREFIX
from gpupool.serving.door import ServiceDoor
from gpupool.serving.routes import router as service_router
from gpupool.signon.routes import router as signon_router
from gpupool.signon.scim.routes import router as scim_router
from gpupool.templates.routes import router as template_router
from gpupool.tenancy.routes import router as tenancy_router
from gpupool.workspaces.routes import router as workspace_router

PREFIX = "/api/v1"


@dataclass(frozen=True)
class RouterMount:
    """A router and the prefix of its paths."""

    router: APIRouter
    prefix: str = PREFIX


#: Every router of the API. A new room adds one line. A request is compared with each route in this order, so the routes
#: that every job needs come first.
MOUNTS: tuple[RouterMount, ...] = (
    RouterMount(allocations_router),
    RouterMount(node_router),
    RouterMount(log_router),
    RouterMount(schedule_router),
    RouterMount(event_router),
    RouterMount(routes.open_router, ""),
    RouterMount(login_router, ""),
    RouterMount(routes.router),
    RouterMount(tenancy_router),
    RouterMount(session_router),
    RouterMount(fleet_router),
    RouterMount(metering_router),
    RouterMount(energy_router),
    RouterMount(network_router),
    RouterMount(security_router),
    RouterMount(balancing_router),
    RouterMount(forwarding_router),
    RouterMount(floating_router),
    RouterMount(firewall_router),
    RouterMount(gateway_router),
    RouterMount(limiting_router),
    RouterMount(network_quotas_router),
    RouterMount(naming_router),
    RouterMount(verification_router),
    RouterMount(exposure_router),
    RouterMount(line_router),
    RouterMount(routing_router),
    RouterMount(flows_router),
    RouterMount(mirroring_router),
    RouterMount(plane_router),
    RouterMount(notification_router),
    RouterMount(secret_router),
    RouterMount(cluster_router),
    RouterMount(planning_router),
    RouterMount(reservation_router),
    RouterMount(defrag_router),
    RouterMount(signon_router),
    RouterMount(signon_doors, ""),
    RouterMount(pool_view_router),
    RouterMount(preview_router),
    RouterMount(workspace_router),
    RouterMount(price_router),
    RouterMount(budget_router),
    RouterMount(document_router),
    RouterMount(template_router),
    RouterMount(service_router),
    RouterMount(idle_router),
    RouterMount(handover_router),
    RouterMount(leaver_router),
    RouterMount(fault_router),
    RouterMount(advice_router),
    RouterMount(audit_router),
    RouterMount(scim_router, "/scim/v2"),
    RouterMount(metrics_router, ""),
)


def create_app(config: ServerConfig, services: ServiceSet) -> FastAPI:
    """The application over these services; starts nothing and opens nothing."""
    # No pages of FastAPI's own, which load scripts from elsewhere; an unknown path is no redirect.
    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.config = config
    app.state.brake = LoginBrake()
    for service in fields(services):
        setattr(app.state, service.name, getattr(services, service.name))
    for mount in MOUNTS:
        app.router.routes.extend(place_under(mount.router, mount.prefix))
    problems.install_handlers(app)
    extend_openapi(app)
    # Each one added lies around those before it.
    app.add_middleware(IdempotencyMiddleware, store=services.store)
    app.add_middleware(RequestBodyMiddleware)
    app.add_middleware(InFlightMiddleware, most=config.per_caller)
    app.add_middleware(ServiceDoor, serving=services.serving)
    app.add_middleware(AuthenticationMiddleware, tenancy=services.tenancy, brake=app.state.brake)
    app.add_middleware(AuditMiddleware, audit=services.audit)
    app.add_middleware(DurableAnswerMiddleware, durability=services.store.durability)
    app.add_middleware(LeadershipMiddleware, leading=services.store.leading)
    app.add_middleware(CompressionMiddleware)
    routes_of_get = [*list_get_paths(app), SERVICE_PREFIX]
    app.add_middleware(ConsoleFiles, folder=find_static(), routes=routes_of_get)
    app.add_middleware(problems.ProblemMiddleware)
    app.add_middleware(RequestMetricsMiddleware)
    return app


def list_get_paths(app: FastAPI) -> list[str]:
    """List the paths of the app's routes that answer GET, and those of its WebSockets."""
    paths = []
    for route in app.routes:
        methods = getattr(route, "methods", None)
        if not methods or "GET" in methods:
            paths.append(getattr(route, "path", ""))
    return paths
