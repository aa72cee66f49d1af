"""The web application: every room's routes behind the same layers.

From the outside in: `Measured` (counts), `Answers` (problems, version), `Leading` (this server's lease holds),
`Acknowledge` (what is told is on disk), `Authentication`, `InFlight` (so many at a time), `Bodies` (size, text), `Once`
(idempotency keys), then FastAPI. A stranger's request is refused before its body is read and before its route is looked
for.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from fastapi import APIRouter, FastAPI

from gpupool.allocations.defrag_routes import router as defrag_router
from gpupool.allocations.event_routes import router as event_router
from gpupool.allocations.log_routes import router as log_router
from gpupool.allocations.node_routes import router as node_router
from gpupool.allocations.planning import router as planning_router
from gpupool.allocations.reservation_routes import router as reservation_router
from gpupool.allocations.routes import router as allocations_router
from gpupool.fleet.routes import router as fleet_router
from gpupool.metering.cluster_routes import router as cluster_router
from gpupool.metering.routes import router as metering_router
from gpupool.server import doors, problems
from gpupool.server.acknowledge import Acknowledge
from gpupool.server.auth import Authentication, Brake
from gpupool.server.bodies import Bodies
from gpupool.server.config import ServerConfig, Services
from gpupool.server.in_flight import InFlight
from gpupool.server.leading import Leading
from gpupool.server.measured import Measured
from gpupool.server.metrics import router as metrics_router
from gpupool.server.once import Once
from gpupool.server.openapi import describe
from gpupool.tenancy.routes import router as tenancy_router

PREFIX = "/api/v1"


@dataclass(frozen=True)
class Mount:
    """A router and the prefix of its paths."""

    router: APIRouter
    prefix: str = PREFIX


MOUNTS: tuple[Mount, ...] = (
    Mount(doors.open_router, ""),
    Mount(doors.router),
    Mount(tenancy_router),
    Mount(fleet_router),
    Mount(metering_router),
    Mount(cluster_router),
    Mount(allocations_router),
    Mount(log_router),
    Mount(node_router),
    Mount(event_router),
    Mount(planning_router),
    Mount(reservation_router),
    Mount(defrag_router),
    Mount(metrics_router, ""),
)
"""Every router of the API. A new room adds one line."""


def create_app(config: ServerConfig, services: Services) -> FastAPI:
    """The application over these services; starts nothing and opens nothing."""
    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.config = config
    app.state.brake = Brake()
    for service in fields(services):
        setattr(app.state, service.name, getattr(services, service.name))
    for mount in MOUNTS:
        app.include_router(mount.router, prefix=mount.prefix)
    problems.install(app)
    describe(app)
    # Each one added lies around those before it.
    app.add_middleware(Once, store=services.store)
    app.add_middleware(Bodies)
    app.add_middleware(InFlight, most=config.per_caller)
    app.add_middleware(Authentication, tenancy=services.tenancy, brake=app.state.brake)
    app.add_middleware(Acknowledge, durability=services.store.durability)
    app.add_middleware(Leading, leading=services.store.leading)
    app.add_middleware(problems.Answers)
    app.add_middleware(Measured)
    return app
