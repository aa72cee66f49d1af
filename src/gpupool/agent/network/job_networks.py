"""Attaches jobs to their networks and detaches them. Idempotent; called under the job's lock."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import JobNamespaces, JobNetwork, name_interface
from gpupool.agent.network.proxy_drains import ProxyDrains, is_proxy
from gpupool.agent.network.switch_ports import SwitchPorts, open_ports
from gpupool.agent.network.uplink import read_name_servers
from gpupool.agent.supervisor.client import BindMount, JobSpec
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.northbound import name_port
from gpupool.wire.networks import PortWork

#: Seconds in which the engine has to have a new port in force.
_PORT_SECONDS: Final = 10.0
#: Where a program finds its name servers (resolv.conf(5)).
RESOLV_CONF: Final = Path("/etc/resolv.conf")


class JobNetworks:
    """The jobs of this machine that are in networks. Thread-safe."""

    def __init__(self, files: EngineFiles) -> None:
        self._files = files
        self._namespaces = JobNamespaces(files)
        self.drains = ProxyDrains(files)
        self._lock = threading.Lock()
        self._ports: SwitchPorts | None = None

    def join(self, spec: JobSpec, work: PortWork, directory: Path) -> JobSpec:
        """Attach a job, and return its description with the network and its name server.

        Args:
            directory: the job's own.

        Raises:
            NetworkingUnavailable: the engine does not serve the port.
        """
        joined = self.attach(work)
        file = directory / "resolv.conf"
        file.write_text(make_resolv_conf(work))
        names = BindMount(str(file), str(RESOLV_CONF.resolve()))
        return replace(spec, network_namespace=str(joined.namespace), binds=(*spec.binds, names))

    def attach(self, work: PortWork) -> JobNetwork:
        """Give a job its namespace and plug it in; blocks until its packets are forwarded.

        Raises NetworkingUnavailable.
        """
        network = self._namespaces.create(work)
        ports = self._open()
        try:
            ports.add(network.interface, name_port(work.id), _PORT_SECONDS)
        except NetworkingUnavailable:
            # The switch's database may have been started again at the same place.
            self._forget(ports)
            raise
        return network

    def detach(self, port: str) -> None:
        """Unplug a job and remove its namespace. Idempotent, also without an engine."""
        if port not in self._namespaces.list_ports():
            return
        try:
            self._open().remove(name_interface(port))
        finally:
            self._namespaces.remove(port)

    def detach_unknown(self, known: Collection[str]) -> None:
        """Detach every port that is not one of these. Call it once, at the agent's start."""
        for port in self._namespaces.list_ports():
            # Those of proxies are the engine's.
            if port not in known and not is_proxy(port):
                self.detach(port)

    def locate(self, port: str) -> Path:
        """Return the path of the namespace of a port."""
        return self._namespaces.locate(port)

    def close(self) -> None:
        """Close the connection; nothing on the wire changes."""
        with self._lock:
            if self._ports is not None:
                self._ports.close()
                self._ports = None

    def _open(self) -> SwitchPorts:
        with self._lock:
            if self._ports is None:
                self._ports = open_ports(self._files)
            return self._ports

    def _forget(self, ports: SwitchPorts) -> None:
        with self._lock:
            if self._ports is ports:
                self._ports.close()
                self._ports = None


def make_resolv_conf(work: PortWork) -> str:
    """Return what a job's `/etc/resolv.conf` says: its network answers names at the router."""
    # OVN 23.03 gives no answer to a question for the IPv6 address of a name that has none, and
    # glibc takes a missing answer for a failure. glibc knows `no-aaaa` from 2.36 on.
    options = "no-aaaa single-request timeout:2 attempts:2"
    # The switch answers names of the network whatever server is asked; others pass to that server.
    servers = read_name_servers() if work.has_gateway else []
    lines = [f"nameserver {server}" for server in servers or [work.gateway]]
    return "\n".join((*lines, f"search {work.domain}", f"options {options}", ""))
