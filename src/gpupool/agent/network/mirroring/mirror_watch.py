"""Makes the parts of mirrors whose jobs a machine has, and removes the others."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.mirroring.switch_mirrors import (
    MirrorPath,
    MirrorTunnel,
    SwitchMirrors,
)
from gpupool.agent.network.namespaces import (
    JobNamespaces,
    enter_namespace,
    import_pyroute2,
    name_interface,
    turn_checksum_off,
)
from gpupool.agent.network.vm_taps import VmTaps
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.mirrors import MirrorReading, MirrorWork

#: Which jobs of a mirror are on this machine.
Part = Literal["whole", "source", "target"]
#: Of the switch's namespace and of the target's, by interface.
_NO_IPV6: Final = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
_ELSEWHERE: Final = "the machine of the other job has no address for tunnels yet"
_NO_INTERFACE: Final = "the target is a VM, which gets no second interface"

log = logging.getLogger(__name__)


class MirrorWatch:
    """The mirrors of one engine. One thread at a time."""

    def __init__(self, files: EngineFiles) -> None:
        self._files = files
        self._namespaces = JobNamespaces(files)
        self._taps = VmTaps(files)
        #: Whether the switch may have mirrors: also those that an earlier agent made.
        self._has_any = True

    def apply(self, mirrors: Sequence[MirrorWork]) -> list[MirrorReading]:
        """Make and remove mirrors, and read back what they copy. Idempotent.

        A mirror whose jobs are both elsewhere has no reading.
        """
        if not mirrors and not self._has_any:
            return []
        wanted = dict[str, tuple[MirrorWork, Part]]()
        readings = list[MirrorReading]()
        try:
            for work, part, reason in self._choose_parts(mirrors):
                if reason:
                    readings.append(MirrorReading(key=work.key, part=part, reason=reason))
                else:
                    wanted[work.key] = (work, part)
            switch = SwitchMirrors(self._files.remote("switch"))
            try:
                for key in switch.list_keys():
                    if key not in wanted:
                        self._remove(switch, key)
                made = [self._follow(switch, work, part) for work, part in wanted.values()]
            finally:
                switch.close()
        except (NetworkingUnavailable, OSError) as error:
            log.warning("mirrors wait for the switch: %s", error)
            reason = str(error)[:200]
            for work, part in wanted.values():
                readings.append(MirrorReading(key=work.key, part=part, reason=reason))
            return readings
        self._has_any = bool(wanted)
        return readings + made

    def _choose_parts(
        self, mirrors: Sequence[MirrorWork]
    ) -> Iterator[tuple[MirrorWork, Part, str]]:
        """Yield the mirrors with a job on this machine, and why one cannot be made; empty: it can."""
        taps = set(self._taps.list_ports())
        here = taps.union(self._namespaces.list_ports())
        for work in mirrors:
            part = _find_part(work, here)
            if part is None:
                continue
            if work.target in taps:
                yield work, part, _NO_INTERFACE
            elif part != "whole" and not (work.source_tunnel and work.target_tunnel):
                yield work, part, _ELSEWHERE
            else:
                yield work, part, ""

    def _remove(self, switch: SwitchMirrors, key: str) -> None:
        switch.remove(key)
        try:
            self._remove_cable(key)
        except OSError as error:
            # It went with the namespace of its target.
            log.info("the cable of mirror %s: %s", key, error)

    def _follow(self, switch: SwitchMirrors, work: MirrorWork, part: Part) -> MirrorReading:
        """Make what is not there whole of a mirror's part, and read it back."""
        path = make_path(work, part)
        fault = ""
        try:
            if part != "source" and not self._has_cable(work):
                switch.remove(work.key)
                self._lay_cable(work)
            count = switch.find_count(path)
            if count is None:
                switch.remove(work.key)
                switch.add(path)
                count = switch.find_count(path)
            fault = switch.find_fault(path)
        except OSError as error:
            # A job may have ended meanwhile, or has an interface of that name itself.
            fault = str(error)
            count = None
        if count is None:
            fault = fault or "the switch did not take the mirror"
        if count is None or fault:
            return MirrorReading(key=work.key, part=part, reason=fault[:200])
        return MirrorReading(key=work.key, part=part, packets=count.packets, bytes=count.bytes)

    def _has_cable(self, work: MirrorWork) -> bool:
        """Whether both ends of the cable are there: a job can remove the end inside of it."""
        inside = _find_interface(self._namespaces.locate(work.target), work.interface)
        return inside and _find_interface(self._files.namespace, name_interface(work.key))

    def _lay_cable(self, work: MirrorWork) -> None:
        self._remove_cable(work.key)
        library = import_pyroute2()
        outer = name_interface(work.key)
        place = self._namespaces.locate(work.target)
        with place.open("rb") as inside, enter_namespace(self._files.namespace):
            peer = {"ifname": work.interface, "net_ns_fd": inside.fileno()}
            with _raise_as_os_error(library), library.IPRoute() as switch:
                switch.link("add", ifname=outer, kind="veth", peer=peer)
            _set_up(library, outer)
        with enter_namespace(place):
            _set_up(library, work.interface)

    def _remove_cable(self, key: str) -> None:
        library = import_pyroute2()
        with (
            enter_namespace(self._files.namespace),
            _raise_as_os_error(library),
            library.IPRoute() as switch,
        ):
            for index in switch.link_lookup(ifname=name_interface(key)):
                switch.link("del", index=index)


def _find_part(work: MirrorWork, ports: Collection[str]) -> Part | None:
    """Say which of a mirror's jobs are among the ports of this machine; None: neither."""
    if work.source in ports:
        return "whole" if work.target in ports else "source"
    return "target" if work.target in ports else None


def make_path(work: MirrorWork, part: Part) -> MirrorPath:
    """Return what the switch of a machine copies for a mirror."""
    source = name_interface(work.source)
    output = name_interface(work.key)
    # As the switch sees it: what a job sends comes in by its port.
    is_from = work.direction != "in"
    is_to = work.direction != "out"
    if part == "whole":
        return MirrorPath(work.key, source, output, is_from=is_from, is_to=is_to)
    name = name_tunnel(work.key)
    if part == "source":
        tunnel = MirrorTunnel(name, work.target_tunnel, work.tunnel_key)
        return MirrorPath(work.key, source, name, is_from=is_from, is_to=is_to, tunnel=tunnel)
    tunnel = MirrorTunnel(name, work.source_tunnel, work.tunnel_key)
    # The first switch has chosen the direction.
    return MirrorPath(work.key, name, output, is_from=True, is_to=False, tunnel=tunnel)


def name_tunnel(mirror: str) -> str:
    """Return the name of a mirror's tunnel in the switch: 12 characters."""
    return f"gx{mirror.partition('-')[2]}"


def _find_interface(namespace: Path, name: str) -> bool:
    with enter_namespace(namespace), import_pyroute2().IPRoute() as inside:
        return bool(inside.link_lookup(ifname=name))


@contextlib.contextmanager
def _raise_as_os_error(library: Any) -> Iterator[None]:
    """Raise errors of netlink as OSError: a job can cause them in its namespace."""
    try:
        yield
    except library.NetlinkError as error:
        raise OSError(error.code, str(error)) from error


def _set_up(library: Any, interface: str) -> None:
    """Set an interface of this thread's namespace up: it sends nothing of its own."""
    turn_checksum_off(interface)
    silence = Path(_NO_IPV6.format(interface))
    if silence.exists():
        silence.write_text("1")
    with _raise_as_os_error(library), library.IPRoute() as place:
        for index in place.link_lookup(ifname=interface):
            place.link("set", index=index, state="up", arp=False)
