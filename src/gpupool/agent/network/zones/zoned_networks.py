"""Attaches jobs to networks of every zone: each job joins the switch of its network's zone."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gpupool.agent.network.balancing.proxy_drains import ProxyDrains
from gpupool.agent.network.daemons import locate_engine
from gpupool.agent.network.job_networks import JobNetworks
from gpupool.agent.network.switch_ports import open_ports
from gpupool.agent.network.zones.zone_files import list_zones, locate_zone
from gpupool.agent.supervisor.client import JobSpec
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.networks import PortWork

#: Seconds in which a zone has to come up: it starts with its first network, zone 0 with the pool.
_START_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05


class ZonedNetworks:
    """The jobs of this machine that are in networks. Thread-safe."""

    def __init__(self, root: Path) -> None:
        """Make the object.

        Args:
            root: the directory of zone 0's engine, whether it is there or not.
        """
        self._root = root
        self._lock = threading.Lock()
        self._zones = {0: JobNetworks(locate_engine(root))}
        #: Zones whose switch has taken ports since they began.
        self._ready = set[int]()

    def join(
        self, spec: JobSpec, work: PortWork, directory: Path, *, by_tap: bool = False
    ) -> JobSpec:
        """Attach a job. Blocks until its packets are forwarded; waits for a zone that starts.

        As `JobNetworks.join`.
        """
        self._await_zone(work.zone)
        return self._get(work.zone).join(spec, work, directory, by_tap=by_tap)

    def detach(self, port: str) -> None:
        """Unplug a job and remove its namespace or its tap. Idempotent, also without an engine."""
        self._find(port).detach(port)

    def detach_unknown(self, known: Collection[str]) -> None:
        """Detach every port that is not one of these. Call it once, at the agent's start."""
        for zone in self._list():
            self._get(zone).detach_unknown(known)

    def locate(self, port: str) -> Path:
        """Return the path of the namespace of a port."""
        return self._find(port).locate(port)

    def find_drains(self, port: str) -> ProxyDrains:
        """Return the proxies of the zone that a port is in."""
        return self._find(port).drains

    def _list(self) -> list[int]:
        return [0, *list_zones(self._root)]

    def _find(self, port: str) -> JobNetworks:
        """Find the zone that has a port; zone 0 where none has it."""
        for zone in list_zones(self._root):
            found = self._get(zone)
            if found.has_port(port):
                return found
        return self._get(0)

    def _get(self, zone: int) -> JobNetworks:
        with self._lock:
            if zone not in self._zones:
                files = locate_engine(locate_zone(self._root, zone))
                self._zones[zone] = JobNetworks(files)
            return self._zones[zone]

    def _await_zone(self, zone: int) -> None:
        """Block until the switch of a zone takes ports. Raises NetworkingUnavailable."""
        files = locate_engine(locate_zone(self._root, zone))
        if files.namespace.exists() and zone in self._ready:
            return
        # A connection to the switch of an earlier engine.
        self._get(zone).close()
        deadline = time.monotonic() + _START_SECONDS
        while not (files.namespace.exists() and files.database("switch").exists()):
            if time.monotonic() >= deadline:
                raise _make_error(zone)
            time.sleep(_LOOK_SECONDS)
        ports = open_ports(files)
        try:
            if not ports.wait_for_bridge(max(_LOOK_SECONDS, deadline - time.monotonic())):
                raise _make_error(zone)
        finally:
            ports.close()
        self._ready.add(zone)


def _make_error(zone: int) -> NetworkingUnavailable:
    return NetworkingUnavailable(
        f"zone {zone} of networks did not start within {_START_SECONDS:g} s",
        hint="gpupool network status",
    )
