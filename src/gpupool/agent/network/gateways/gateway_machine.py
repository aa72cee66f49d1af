"""The part of a machine in a pair of gateways: its watchdog is started, followed and ended."""

from __future__ import annotations

import logging
import shutil
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.balancing.proxy_mover import forget_serving, read_serving
from gpupool.agent.network.daemons import (
    BRIDGE,
    PRIORITY,
    UPLINK_BRIDGE,
    EngineFiles,
    find_datapath,
)
from gpupool.agent.network.gateways.connection_tracking import ConnectionTracking
from gpupool.agent.network.gateways.floating_address import FloatingAddress, find_interface
from gpupool.agent.network.gateways.floating_probe import FloatingProbe
from gpupool.agent.network.gateways.outside_addresses import OutsideAddresses, find_own
from gpupool.agent.network.gateways.priorities import GatewayGroup
from gpupool.agent.network.gateways.watchdog_files import (
    SETTINGS,
    WatchdogSettings,
    read_settings,
    read_state,
    write_settings,
)
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.uplink import INNER
from gpupool.agent.network.zones.zone_uplink import make_uplink
from gpupool.base.durable import make_directory_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.mechanisms.contract import HelperProcess
from gpupool.network.gateways.model import GatewayRole, make_priority
from gpupool.network.ovn.credentials import show_certificate
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.floating_ips import FloatingIpReport, FloatingIpWork
from gpupool.wire.network.gateways import GatewayReport, GatewayWork

#: What the helpers' records name as their user.
USER: Final = "gateway"
_HELPER: Final = "gateway-watchdog"
#: File in the engine's directory of what `OutsideAddresses` added.
OUTSIDE: Final = "floating-ips"

log = logging.getLogger(__name__)


class GatewayMachine:
    """The watchdog of one engine. One thread."""

    def __init__(self, files: EngineFiles, root: Path, helpers: HelperProcesses, node: str) -> None:
        """Make the object; nothing runs yet.

        Args:
            root: the engine's directory.
            node: how people know the machine.
        """
        self._files = files
        self._uplink = make_uplink(files, root)
        self._outside = OutsideAddresses(root / OUTSIDE)
        self._probe = FloatingProbe()
        #: Floating IPs that this machine cannot have, with the reason.
        self._taken = dict[IPv4Address, str]()
        self._prefix: IPv4Network | None = None
        self._directory = root / "gateway"
        self._tracking = ConnectionTracking(self._directory / "tracking", files.namespace)
        self._helpers = helpers
        self._node = node

    def set_up_uplink(self, ports: SwitchPorts, work: NetworkEngineWork) -> tuple[str, str]:
        """Set up the uplink where the machine has gateways, or remove it. Idempotent.

        Returns:
            Its prefix, empty where there is none; why it does not carry all that is wanted.
        """
        if not work.uplink:
            ports.remove_bridge(UPLINK_BRIDGE)
            self._outside.release()
            self._uplink.remove()
            self._prefix = None
            return "", ""
        try:
            prefix = self._lay_uplink(work)
        except NetworkingUnavailable as error:
            # Networks without a gateway do not need it.
            return "", f"gateways wait: {error.message}; {error.hint}"
        ports.add_bridge(UPLINK_BRIDGE, INNER, find_datapath())
        try:
            # With the rules in force: without them packets would pass between tenants.
            self._uplink.carry_ipv6(prefix, wanted=work.uplink6)
        except NetworkingUnavailable as error:
            return str(prefix), f"{error.message}; {error.hint}"
        return str(prefix), ""

    def _lay_uplink(self, work: NetworkEngineWork) -> IPv4Network:
        pair = work.gateway
        self._taken = self._take_floating(work)
        if pair is None:
            self._prefix = self._uplink.set_up(
                work.forwards, work.firewall, floating_ips=self._list_floating(work)
            )
            return self._prefix
        prefix = self._uplink.set_up(
            work.forwards,
            work.firewall,
            floating_ips=self._list_floating(work),
            prefix=IPv4Network(pair.prefix) if pair.prefix else None,
            floating=IPv4Address(pair.address),
        )
        make_directory_durably(self._directory, mode=0o700)
        self._tracking.set_up()
        self._prefix = prefix
        return prefix

    def _take_floating(self, work: NetworkEngineWork) -> dict[IPv4Address, str]:
        """Answer for the floating IPs outside; returns those that this machine cannot have."""
        wanted = {IPv4Address(one.address) for one in work.floating_ips}
        if work.gateway is None:
            return self._outside.apply(wanted)
        # The watchdog has them, as long as this machine is the active one.
        self._outside.release()
        if (self._directory / SETTINGS).exists():
            wanted -= set(map(IPv4Address, read_settings(self._directory).floating_ips))
        return dict.fromkeys(find_own(wanted), "this machine has it itself")

    def _list_floating(self, work: NetworkEngineWork) -> list[FloatingIpWork]:
        # What is the machine's own must not lead to a job.
        return [one for one in work.floating_ips if IPv4Address(one.address) not in self._taken]

    def probe_floating(self, work: NetworkEngineWork) -> list[FloatingIpReport]:
        """Probe the floating IPs where this machine has the gateways. Blocks for a moment."""
        is_active = work.gateway is None or read_state(self._directory).state == "active"
        if not is_active or self._prefix is None or not work.floating_ips:
            self._probe.forget()
            return []
        if work.gateway is None:
            self._outside.restore()
        cable = self._uplink.cable
        reports = self._probe.probe(self._list_floating(work), self._prefix[1], cable)
        for one in work.floating_ips:
            reason = self._taken.get(IPv4Address(one.address))
            if reason is not None:
                reports.append(FloatingIpReport(id=one.id, state="taken", reason=reason))
        return reports

    def demote(self, work: NetworkEngineWork) -> None:
        """Make a machine that is about to start its switch stand back. Idempotent.

        A switch without flows would take the gateways from one that has them. Where the database is
        away, the other machine has done it, or there is none.
        """
        if work.gateway is None:
            return
        try:
            if work.certificate is not None:
                show_certificate(**work.certificate.model_dump())
            group = GatewayGroup(work.gateway.northbound or self._files.remote("northbound"))
        except NetworkingUnavailable as error:
            log.warning("gateways were not demoted before the switch starts: %s", error.message)
            return
        try:
            away = make_priority(GatewayRole.AWAY, is_first=work.gateway.is_first)
            group.write({work.chassis: away}, f"the switch of {self._node} starts")
        except NetworkingUnavailable as error:
            log.warning("gateways were not demoted before the switch starts: %s", error.message)
        finally:
            group.close()

    def follow(self, work: NetworkEngineWork) -> GatewayReport | None:
        """Start or end the watchdog, and return what it says; None where there is no pair.

        Idempotent. Raises SupervisorError.
        """
        if work.gateway is None:
            self.end()
            return None
        interface = find_interface(IPv4Address(work.gateway.address))
        if not interface:
            return GatewayReport(
                state="starting",
                reason=f"{self._node} has no address in the prefix of {work.gateway.address}, the "
                "address of the gateways: ip -br address",
            )
        make_directory_durably(self._directory, mode=0o700)
        write_settings(self._directory, self._make_settings(work, work.gateway, interface))
        arguments = (*PRIORITY, sys.executable, "-m", "gpupool.agent.network.gateways.watchdog")
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONUNBUFFERED": "1"}
        helper = HelperProcess(_HELPER, (*arguments, str(self._directory)), environment)
        self._helpers.start(USER, (helper,))
        state = read_state(self._directory)
        return GatewayReport(
            state=state.state,
            reason=state.reason[:400],
            since_ns=state.since_ns,
            balancers=len(read_serving(self._files.run)),
        )

    def end(self) -> None:
        """End the watchdog, and take the address away. Idempotent; raises SupervisorError."""
        if not self._directory.exists():
            return
        self._helpers.release(USER)
        if (self._directory / SETTINGS).exists():
            settings = read_settings(self._directory)
            others = map(IPv4Address, settings.floating_ips)
            floating = FloatingAddress(IPv4Address(settings.address), settings.interface, others)
            try:
                floating.release()
            finally:
                floating.close()
        forget_serving(self._files.run)
        self._tracking.restore()
        shutil.rmtree(self._directory)

    def _make_settings(
        self, work: NetworkEngineWork, pair: GatewayWork, interface: str
    ) -> WatchdogSettings:
        return WatchdogSettings(
            chassis=work.chassis,
            peer=pair.peer,
            names={work.chassis: self._node, pair.peer: pair.peer_node},
            peer_tunnel=pair.peer_tunnel,
            northbound=pair.northbound or self._files.remote("northbound"),
            certificates=str(self._files.certificates) if pair.northbound else "",
            run=str(self._files.run),
            switch=self._files.remote("switch"),
            bridge_socket=str(self._files.run / f"{BRIDGE}.mgmt"),
            address=pair.address,
            interface=interface,
            upstream=pair.upstream or "",
            is_first=pair.is_first,
            is_drained=pair.is_drained,
            floating_ips=sorted(one.address for one in self._list_floating(work)),
        )
