"""Starts, feeds and ends the resolvers of networks on this machine.

Each has a network namespace with one port in its network, an account of its own, and a supervisor,
so it survives the agent and is found again by the network's id.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import (
    JobNamespaces,
    enter_namespace,
    name_interface,
)
from gpupool.agent.network.naming.outside_routes import route_outside
from gpupool.agent.network.naming.resolver_files import (
    ResolverFiles,
    choose_account,
    format_names,
    format_servers,
    make_resolver,
)
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.uplink import read_name_servers
from gpupool.agent.supervisor.client import JobState, SupervisorError, inspect_job
from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.resolver_rows import (
    RESOLVER_ADDRESS,
    ROUTER_ADDRESS,
    ResolverConfig,
    make_resolver_mac,
)
from gpupool.wire.network.networks import PortWork

#: How the ids of networks begin.
NETWORK_KIND: Final = "v-"
#: Seconds in which a resolver has to listen, and between two looks.
_LISTEN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.002
#: Port 53 as `/proc/net/udp` shows it.
_PORT: Final = ":0035 "


class ResolverProcesses:
    """The resolvers of one engine. One thread at a time."""

    def __init__(self, files: EngineFiles, root: Path, owner_uid: int) -> None:
        """Make the object; nothing runs yet.

        Args:
            root: the engine's directory.
        """
        self._files = files
        self._root = root / "resolvers"
        self._helpers = HelperProcesses(self._root, owner_uid, lambda _name: ())
        self._namespaces = JobNamespaces(files, (NETWORK_KIND,))
        #: The ports that this object has plugged in, by network.
        self._plugged: dict[str, str] = {}
        #: The networks whose resolvers are known to have their IPv6 address.
        self._with_ipv6 = set[str]()
        #: The networks whose resolvers are known to have read their files. An agent may have ended
        #: between writing these and saying so.
        self._read = set[str]()

    def list_networks(self) -> list[str]:
        """List the networks that have a resolver, or what is left of one."""
        return sorted({*self._helpers.list_names(), *self._namespaces.list_ports()})

    def is_running(self, network: str) -> bool:
        """Whether the process of a network's resolver runs."""
        return inspect_job(self._root / network).state is JobState.RUNNING

    def serve(self, network: str, config: ResolverConfig, ports: SwitchPorts) -> None:
        """Let a resolver answer what `config` says; start it where none runs. Idempotent.

        Raises:
            NetworkingUnavailable: its port cannot be plugged in.
            SupervisorError: it does not start.
        """
        files = self._locate(network)
        account = choose_account(config.number, Path("/proc/self/uid_map").read_text())
        work = _make_port(network, config)
        if self.is_running(network) and self._lacks_ipv6(network, work):
            # Its network has IPv6 from now on: one more address, and a process that listens there.
            self.end(network, ports)
        if _write_files(files, config, account):
            self._read.discard(network)
        if config.has_ipv6:
            route_outside(self._namespaces.locate(network), wanted=config.has_outside6)
        if self.is_running(network):
            if network not in self._read:
                self._reload(network)
                self._read.add(network)
            self._plug(network, config, ports)
            return
        attached = self._namespaces.create(work)
        with enter_namespace(attached.namespace):
            # Of this namespace alone: its process needs no right of root to listen.
            Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
        self._plug(network, config, ports)
        helper = make_resolver(network, files, account, attached.namespace, config)
        self._helpers.start(network, [helper])
        _await_listening(network, attached.namespace)
        self._read.add(network)

    def end(self, network: str, ports: SwitchPorts | None) -> None:
        """End a resolver and remove what it had. Idempotent.

        Args:
            ports: None where the switch ends too.

        Raises:
            SupervisorError: it does not end.
        """
        self._helpers.release(network)
        self._plugged.pop(network, None)
        self._with_ipv6.discard(network)
        self._read.discard(network)
        if ports is not None:
            ports.remove(name_interface(network))
        self._namespaces.remove(network)
        shutil.rmtree(self._locate(network).directory, ignore_errors=True)

    def remove(self) -> None:
        """End all resolvers, with the switch. Idempotent. Raises SupervisorError."""
        for network in self.list_networks():
            self.end(network, None)
        shutil.rmtree(self._files.names, ignore_errors=True)

    def _lacks_ipv6(self, network: str, work: PortWork) -> bool:
        if work.address6 is None or network in self._with_ipv6:
            return False
        if not self._namespaces.is_complete(work):
            return True
        self._with_ipv6.add(network)
        return False

    def _plug(self, network: str, config: ResolverConfig, ports: SwitchPorts) -> None:
        if self._plugged.get(network) != config.port:
            ports.plug(name_interface(network), config.port)
            self._namespaces.forget_neighbour(network, str(ROUTER_ADDRESS))
            self._plugged[network] = config.port

    def _reload(self, network: str) -> None:
        """Let a resolver read its files again. It listens, so it takes the signal."""
        started = inspect_job(self._root / network).started
        if started is None or started.pid is None:
            return
        try:
            process = os.pidfd_open(started.pid)
        except ProcessLookupError:
            # It has ended; the next one reads the files at its start.
            return
        try:
            if _read_start(started.pid) == started.start_ticks:
                signal.pidfd_send_signal(process, signal.SIGHUP)
        except (FileNotFoundError, ProcessLookupError):
            return
        finally:
            os.close(process)

    def _locate(self, network: str) -> ResolverFiles:
        return ResolverFiles(self._files.names / network)


def _make_port(network: str, config: ResolverConfig) -> PortWork:
    return PortWork(
        id=network,
        network=network,
        address=str(RESOLVER_ADDRESS),
        prefix=RESOLVER_ADDRESSES.prefixlen,
        gateway=str(ROUTER_ADDRESS),
        mac=make_resolver_mac(config.number),
        mtu=config.mtu,
        domain=config.domain,
        dns_name="",
        address6=str(ipv6.RESOLVER_ADDRESS) if config.has_ipv6 else None,
        gateway6=str(ipv6.ROUTER_ADDRESS) if config.has_ipv6 else None,
        has_outside6=config.has_outside6,
    )


def _write_files(files: ResolverFiles, config: ResolverConfig, account: int) -> bool:
    """Write what differs, for that account alone to read; returns whether anything did."""
    files.directory.parent.mkdir(mode=0o711, exist_ok=True)
    files.directory.mkdir(mode=0o750, exist_ok=True)
    os.chown(files.directory, 0, account)
    names = _replace(files.names, format_names(config), account)
    asked = read_name_servers(has_ipv6=config.has_gateway6)
    servers = _replace(files.servers, format_servers(config, asked), account)
    return names or servers


def _replace(file: Path, text: str, account: int) -> bool:
    """Replace a file in one step: a resolver never reads half of it."""
    try:
        if file.read_text() == text:
            return False
    except FileNotFoundError:
        pass
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text)
    os.chown(temporary, 0, account)
    temporary.chmod(0o640)
    temporary.rename(file)
    return True


def _await_listening(network: str, namespace: Path) -> None:
    """Block until the process of a namespace listens: from then on it takes signals."""
    deadline = time.monotonic() + _LISTEN_SECONDS
    with enter_namespace(namespace):
        while _PORT not in Path("/proc/thread-self/net/udp").read_text():
            if time.monotonic() >= deadline:
                raise SupervisorError(
                    f"the resolver of network {network} does not listen after "
                    f"{_LISTEN_SECONDS:g} seconds"
                )
            time.sleep(_LOOK_SECONDS)


def _read_start(pid: int) -> int:
    """Read when a process began, in clock ticks (proc(5))."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
