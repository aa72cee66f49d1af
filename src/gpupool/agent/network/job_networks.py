"""Attaches jobs to their networks and detaches them. Idempotent; called under the job's lock."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.agent.network.balancing.proxy_drains import ProxyDrains, is_proxy
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.limiting.port_limits import PortLimits
from gpupool.agent.network.namespaces import JobNamespaces, JobNetwork, name_interface
from gpupool.agent.network.naming.name_question import await_name
from gpupool.agent.network.switch_ports import SwitchPorts, open_ports
from gpupool.agent.network.vm_taps import VmTaps
from gpupool.agent.supervisor.client import BindMount, JobSpec
from gpupool.agent.supervisor.job_spec import Tap
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.northbound import name_port
from gpupool.network.resolver_rows import RESOLVER_ADDRESS
from gpupool.wire.network.networks import PortWork
from gpupool.wire.network.promises import LimitWork

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
        self._limits = PortLimits(files)
        self._taps = VmTaps(files)
        self._lock = threading.Lock()
        self._ports: SwitchPorts | None = None

    def join(
        self, spec: JobSpec, work: PortWork, directory: Path, *, by_tap: bool = False
    ) -> JobSpec:
        """Attach a job, and return its description with the network and its name server.

        Blocks until its packets are forwarded.

        Args:
            directory: the job's own.
            by_tap: the job is a VM, whose guest asks for its address and its name server itself.

        Raises:
            NetworkingUnavailable: the engine does not serve the port, or the resolver its name.
        """
        if by_tap:
            interface = self._taps.create(work)
            with self._use_ports() as ports:
                self._plug(ports, interface, work)
                ports.await_flows(interface, _PORT_SECONDS)
            return replace(spec, tap=Tap(str(self._files.namespace), interface))
        joined = self.attach(work)
        file = directory / "resolv.conf"
        file.write_text(make_resolv_conf(work.domain))
        await_name(joined.namespace, work, _PORT_SECONDS)
        names = BindMount(str(file), str(RESOLV_CONF.resolve()))
        return replace(spec, network_namespace=str(joined.namespace), binds=(*spec.binds, names))

    def attach(self, work: PortWork) -> JobNetwork:
        """Give a job its namespace and plug it in; blocks until its packets are forwarded.

        Raises NetworkingUnavailable.
        """
        network = self._namespaces.create_cable(work)
        with self._use_ports() as ports:
            self._plug(ports, network.interface, work)
            # Meanwhile the engine computes the port's flows.
            self._namespaces.set_address(work)
            ports.await_flows(network.interface, _PORT_SECONDS)
        return network

    def detach(self, port: str) -> None:
        """Unplug a job and remove its namespace or its tap. Idempotent, also without an engine."""
        if self._namespaces.has_port(port):
            remove = self._namespaces.remove
        elif port in self._taps.list_ports():
            # A tap is removed as the outer end of a cable is.
            remove = self._namespaces.clear
        else:
            return
        try:
            self._open().remove(name_interface(port))
        finally:
            remove(port)

    def detach_unknown(self, known: Collection[str]) -> None:
        """Detach every port that is not one of these. Call it once, at the agent's start."""
        for port in (*self._namespaces.list_ports(), *self._taps.list_ports()):
            # Those of proxies are the engine's.
            if port not in known and not is_proxy(port):
                self.detach(port)

    def _plug(self, ports: SwitchPorts, interface: str, work: PortWork) -> None:
        ports.plug(interface, name_port(work.id), _PORT_SECONDS)
        # Before its first packet; the engine reads it back, and does it again where it is lost.
        self._limits.shape_port(ports, _make_limit(work))

    @contextlib.contextmanager
    def _use_ports(self) -> Iterator[SwitchPorts]:
        ports = self._open()
        try:
            yield ports
        except NetworkingUnavailable:
            # The switch's database may have been started again at the same place.
            self._forget(ports)
            raise

    def has_port(self, port: str) -> bool:
        """Whether a port has a namespace or a tap here."""
        return self._namespaces.has_port(port) or port in self._taps.list_ports()

    def has_all_addresses(self, work: PortWork) -> bool:
        """Whether a job has its namespace, with the addresses of both families that it should."""
        return self._namespaces.is_complete(work)

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


def _make_limit(work: PortWork) -> LimitWork:
    return LimitWork(key=work.id, subject="port", in_kbit=work.in_kbit, out_kbit=work.out_kbit)


def make_resolv_conf(domain: str) -> str:
    """Return what a job's `/etc/resolv.conf` says: the resolver of its network."""
    return f"nameserver {RESOLVER_ADDRESS}\nsearch {domain}\noptions timeout:2 attempts:2\n"
