"""What a server is told about itself at start, and the services it puts before its routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpupool.allocations.log_routes import Logs
from gpupool.allocations.service import Allocations
from gpupool.base.health import Checks
from gpupool.fleet.service import Fleet
from gpupool.metering.service import Metering
from gpupool.server.connections import PER_SOURCE
from gpupool.store.database import Store
from gpupool.tenancy.service import Tenancy


def _always() -> bool:
    return True


@dataclass(frozen=True)
class ServerConfig:
    """Facts of this start. `ready` is the host's own part of readiness: what it started has come up."""

    state_dir: str
    listeners: tuple[str, ...] = ()
    started_ns: int = 0
    ready: Callable[[], bool] = _always
    per_caller: int = PER_SOURCE
    """Requests of one user at a time."""


@dataclass(frozen=True)
class Services:
    """The rooms' services, as `app.state` names them."""

    store: Store
    tenancy: Tenancy
    fleet: Fleet
    metering: Metering
    allocations: Allocations
    logs: Logs | None = None
    checks: Checks = field(default_factory=Checks)
    """What `/healthz` and `gpupool doctor` ask; a room that can fail unseen adds one."""
