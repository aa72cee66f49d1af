"""The way of a zone's gateways to this machine: a cable to the uplink's bridge of zone 0.

The bridge learns addresses as every switch does, and gateways of all zones differ in them. What the
machine routes, filters and translates is the uplink's of zone 0. Needs the extra `network`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from gpupool.agent.network.daemons import UPLINK_BRIDGE, EngineFiles, locate_engine
from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2, turn_checksum_off
from gpupool.agent.network.switch_ports import SwitchPorts, open_ports
from gpupool.agent.network.uplink import INNER, Uplink
from gpupool.agent.network.zones.zone_files import find_zone
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.firewall import FirewallWork
from gpupool.wire.network.floating_ips import FloatingIpWork
from gpupool.wire.network.networks import ForwardWork

log = logging.getLogger(__name__)


def make_uplink(files: EngineFiles, root: Path) -> Uplink | ZoneUplink:
    """Return the uplink of an engine by its directory."""
    first, zone = find_zone(root)
    return ZoneUplink(files, first, zone) if zone else Uplink(files, root)


class ZoneUplink:
    """The uplink of the engine of a zone above 0."""

    def __init__(self, files: EngineFiles, first: Path, zone: int) -> None:
        """Make the uplink; nothing is there yet.

        Args:
            first: the directory of zone 0's engine.
        """
        self._files = files
        self._first = locate_engine(first)
        self._outer = f"{INNER}-{zone}"
        self._uplink = Uplink(self._first, first)

    def set_up(
        self,
        forwards: Iterable[ForwardWork] = (),
        firewall: Iterable[FirewallWork] = (),
        *,
        floating_ips: Iterable[FloatingIpWork] = (),
        prefix: IPv4Network | None = None,
        floating: IPv4Address | None = None,
    ) -> IPv4Network:
        """Lay the cable. Idempotent; returns the prefix of zone 0's uplink.

        The arguments are zone 0's, which has the rules of all zones.

        Raises NetworkingUnavailable where zone 0 has no uplink.
        """
        present = self._uplink.read_prefix()
        if present is None:
            raise NetworkingUnavailable("zone 0 has no uplink", hint="gpupool network status")
        self._lay()
        ports = open_ports(self._first)
        try:
            ports.plug_outside(UPLINK_BRIDGE, self._outer)
        finally:
            ports.close()
        return present

    def carry_ipv6(self, prefix: IPv4Network, *, wanted: bool) -> None:
        """Leave IPv6 to zone 0's uplink, whose cable and rules are those of all zones."""

    @property
    def cable(self) -> str:
        """This machine's end of zone 0's cable."""
        return self._uplink.cable

    def remove(self) -> None:
        """Remove the cable. Idempotent, also while zone 0 ends."""
        if not self._first.namespace.exists() or not self._remove_cable():
            return
        try:
            ports = SwitchPorts(self._first.remote("switch"))
        except NetworkingUnavailable as error:
            # The next cable of that name is plugged in as this one was.
            log.warning("%s stays in the switch of zone 0: %s", self._outer, error.message)
            return
        try:
            ports.unplug_outside(UPLINK_BRIDGE, self._outer)
        finally:
            ports.close()

    def _lay(self) -> None:
        library = import_pyroute2()
        with (
            self._files.namespace.open("rb") as inside,
            enter_namespace(self._first.namespace),
            library.IPRoute() as switch,
        ):
            if not switch.link_lookup(ifname=self._outer):
                peer = {"ifname": INNER, "net_ns_fd": inside.fileno()}
                switch.link("add", ifname=self._outer, kind="veth", peer=peer)
            _set_up(switch, self._outer)
        with enter_namespace(self._files.namespace), library.IPRoute() as own:
            _set_up(own, INNER)

    def _remove_cable(self) -> bool:
        """Remove both ends; whether there was a cable."""
        with (
            enter_namespace(self._first.namespace),
            import_pyroute2().IPRoute() as switch,
        ):
            found = switch.link_lookup(ifname=self._outer)
            for index in found:
                switch.link("del", index=index)
        return bool(found)


def _set_up(place: Any, name: str) -> None:
    turn_checksum_off(name)
    place.link("set", index=place.link_lookup(ifname=name)[0], state="up")
