"""Keeps a resolver for each network with a job on this machine, with the names of the network.

The names come from the southbound database: the options of the resolvers' ports. So they reach
each machine the way that the packets' rules do, and at the same time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.naming.outside_routes import OutsideRoutes
from gpupool.agent.network.naming.resolver_processes import NETWORK_KIND, ResolverProcesses
from gpupool.agent.network.switch_ports import SwitchPorts, open_ports
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.network.gateway_rows import CHASSIS
from gpupool.network.ovn.northbound_database import NETWORK
from gpupool.network.ovn.session import OvsdbSession
from gpupool.network.resolver_rows import ResolverConfig, read_resolver

_TABLES: Final = {
    "Port_Binding": ("logical_port", "type", "options", "external_ids", "chassis"),
    "Chassis": ("name",),
}
#: Seconds between two looks at the processes.
_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0
#: Seconds that a resolver outlives the last job of its network: the next job starts without a wait.
_IDLE_SECONDS: Final = 60.0
#: Seconds that it outlives its port: a database that starts may show none for a moment.
_GONE_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


@dataclass
class LocalNetwork:
    """A network as this machine sees it.

    Attributes:
        config: what its resolver answers; None while it has no port for one.
        has_job: whether a job of it is here.
        ports: names in OVN of the ports of jobs and proxies that are here.
    """

    config: ResolverConfig | None = None
    has_job: bool = False
    ports: set[str] = field(default_factory=set)


@dataclass
class _Service:
    """A resolver that runs.

    Attributes:
        config: what it was last fed with; None: not since this agent began.
        needed: when a job last needed it, by the monotonic clock.
        failure: the last one, so that each is logged once.
    """

    needed: float
    config: ResolverConfig | None = None
    failure: str = field(default="")


@dataclass(frozen=True)
class SouthboundPlace:
    """Where the southbound database is, and how it knows this machine."""

    remote: str
    chassis: str


class NetworkResolvers:
    """A thread that looks after the resolvers: `start`, then `close`."""

    def __init__(
        self, files: EngineFiles, root: Path, owner_uid: int, place: SouthboundPlace
    ) -> None:
        """Make the object; nothing runs yet.

        Args:
            root: the engine's directory.
        """
        self.place = place
        self._files = files
        self._processes = ResolverProcesses(files, root, owner_uid)
        self._outside = OutsideRoutes(files)
        self._services: dict[str, _Service] = {}
        self._has_news = True
        self._networks: dict[str, LocalNetwork] = {}
        self._session: OvsdbSession | None = None
        self._closing = threading.Event()
        self._thread = SupervisedThread("network-resolvers", self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop looking; the resolvers go on. Idempotent."""
        self._closing.set()
        self._thread.stop()
        session = self._session
        if session is not None:
            session.wake()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._follow()
            except (NetworkingUnavailable, SupervisorError, OSError) as error:
                log.warning("resolvers of networks wait: %s", error)
                self._closing.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        """Follow the southbound database until closed."""
        session = OvsdbSession(self.place.remote, "OVN_Southbound", _TABLES, self._note_row)
        ports = None
        try:
            self._session = session
            ports = open_ports(self._files)
            # What an agent before this one started.
            for network in self._processes.list_networks():
                self._services.setdefault(network, _Service(time.monotonic()))
            self._has_news = True
            while not self._closing.is_set():
                session.refresh()
                with mark_busy():
                    self._look(session, ports)
                self._thread.mark_well()
                session.wait(_LOOK_SECONDS)
        finally:
            self._session = None
            session.close()
            if ports is not None:
                ports.close()

    def _note_row(self, _event: str, _row: Any) -> None:
        self._has_news = True

    def _look(self, session: OvsdbSession, ports: SwitchPorts) -> None:
        if self._has_news:
            self._has_news = False
            self._networks = read_local_networks(
                session.get_rows("Port_Binding"), self.place.chassis
            )
        self._outside.follow(list_outside(self._networks.values()))
        now = time.monotonic()
        for key, network in self._networks.items():
            if network.has_job:
                self._services.setdefault(key, _Service(now)).needed = now
        for key, service in list(self._services.items()):
            network = self._networks.get(key, LocalNetwork())
            try:
                self._look_after(key, service, network, ports)
            except (NetworkingUnavailable, SupervisorError, OSError) as error:
                if str(error) != service.failure:
                    log.error("the resolver of network %s: %s", key, error)
                service.failure = str(error)

    def _look_after(
        self, key: str, service: _Service, network: LocalNetwork, ports: SwitchPorts
    ) -> None:
        """Serve a network, or end its resolver where it is needed no more."""
        config = network.config
        if is_over(network, time.monotonic() - service.needed):
            self._processes.end(key, ports)
            del self._services[key]
        elif config is not None:
            if config != service.config or not self._processes.is_running(key):
                self._processes.serve(key, config, ports)
                service.config = config
            service.failure = ""


def is_over(network: LocalNetwork, idle_seconds: float) -> bool:
    """Whether the resolver of a network ends, by the time since a job last needed it."""
    if network.config is None:
        return idle_seconds > _GONE_SECONDS
    return not network.has_job and idle_seconds > _IDLE_SECONDS


def read_local_networks(
    bindings: Mapping[Any, Any], machine: str = CHASSIS
) -> dict[str, LocalNetwork]:
    """Read the networks from rows of `Port_Binding` (ovn-sb(5)), by their public ids.

    Args:
        machine: the chassis that this machine is.
    """
    found = dict[str, LocalNetwork]()
    for row in bindings.values():
        key = row.external_ids.get(NETWORK)
        # A network that verifies others has no job that asks for names.
        if key is None or not key.startswith(NETWORK_KIND):
            continue
        if row.type == "localport":
            found.setdefault(key, LocalNetwork()).config = read_resolver(
                row.logical_port, row.options
            )
        elif row.type == "" and _is_local(row, machine):
            network = found.setdefault(key, LocalNetwork())
            network.has_job = True
            network.ports.add(row.logical_port)
    return found


def list_outside(networks: Iterable[LocalNetwork]) -> Iterator[tuple[str, bool]]:
    """List the ports here of networks with IPv6, and whether the network leads it outside."""
    for network in networks:
        config = network.config
        if config is not None and config.has_ipv6:
            for port in sorted(network.ports):
                yield port, config.has_outside6


def _is_local(row: Any, machine: str) -> bool:
    """Whether a port is on this machine; a port that is plugged in nowhere yet is not."""
    return any(chassis.name == machine for chassis in row.chassis)
