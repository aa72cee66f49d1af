"""The interface of this machine for dedicated lines: moved into the switch's namespace, and back.

What it was before is written down first, so it goes back also after a kill. Needs the extra
`network` (pyroute2).
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2, turn_checksum_off
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable

#: Flag of an interface that is up (linux/if.h).
_IFF_UP = 0x1


class LineInterface:
    """The interface for lines of one engine."""

    def __init__(self, files: EngineFiles, root: Path) -> None:
        """Make it; nothing is moved yet.

        Args:
            root: the engine's directory, for what was there before.
        """
        self._switch = files.namespace
        self._record = root / "line-interface"

    @property
    def name(self) -> str:
        """The interface that was taken; empty: none."""
        return self._read_record()[0]

    def take(self, name: str) -> None:
        """Move an interface into the switch's namespace. Idempotent.

        Raises NetworkingUnavailable where this machine has none of that name, or uses it.
        """
        if self.has_interface(name):
            return
        library = import_pyroute2()
        with library.IPRoute() as host:
            index = next(iter(host.link_lookup(ifname=name)), None)
            if index is None:
                raise NetworkingUnavailable(f"this machine has no interface {name}")
            link = host.get_links(index)[0]
            _refuse_used(host, link, name)
            was_up = bool(link["flags"] & _IFF_UP)
            write_durably(self._record, f"{name} {'up' if was_up else 'down'}\n".encode())
            with open(self._switch, "rb") as switch:
                host.link("set", index=index, net_ns_fd=switch.fileno())
        with enter_namespace(self._switch), library.IPRoute() as inside:
            turn_checksum_off(name)
            inside.link("set", index=inside.link_lookup(ifname=name)[0], state="up")

    def release(self) -> None:
        """Move the interface back, as it was. Idempotent."""
        name, was_up = self._read_record()
        if not name:
            return
        library = import_pyroute2()
        if self._switch.exists():
            with (
                open("/proc/thread-self/ns/net", "rb") as here,
                enter_namespace(self._switch),
                library.IPRoute() as inside,
            ):
                for index in inside.link_lookup(ifname=name):
                    inside.link("set", index=index, net_ns_fd=here.fileno())
        with library.IPRoute() as host:
            for index in host.link_lookup(ifname=name):
                if was_up:
                    host.link("set", index=index, state="up")
        self._record.unlink()

    def has_interface(self, name: str) -> bool:
        """Whether that interface is in the switch's namespace."""
        if self.name != name or not self._switch.exists():
            return False
        with enter_namespace(self._switch), import_pyroute2().IPRoute() as inside:
            return bool(inside.link_lookup(ifname=name))

    def has_carrier(self) -> bool:
        """Whether the cable of the interface is plugged in at both ends."""
        with enter_namespace(self._switch), import_pyroute2().IPRoute() as inside:
            for index in inside.link_lookup(ifname=self.name):
                return bool(inside.get_links(index)[0].get_attr("IFLA_CARRIER"))
        return False

    def _read_record(self) -> tuple[str, bool]:
        try:
            name, state = self._record.read_text().split()
        except FileNotFoundError:
            return "", False
        return name, state == "up"


def _refuse_used(host: Any, link: Any, name: str) -> None:
    """Raise NetworkingUnavailable where this machine needs an interface itself."""
    index = link["index"]
    addresses = [
        address.get_attr("IFA_ADDRESS")
        for family in (socket.AF_INET, socket.AF_INET6)
        for address in host.get_addr(family=family, index=index)
    ]
    used = [one for one in addresses if not str(one).startswith("fe80:")]
    if used or name == "lo":
        raise NetworkingUnavailable(
            f"interface {name} is used by this machine: it has {', '.join(used) or 'loopback'}",
            hint="give lines an interface of their own",
        )
    if link.get_attr("IFLA_MASTER") is not None:
        raise NetworkingUnavailable(
            f"interface {name} belongs to a bridge or a bond",
            hint="give lines an interface of their own",
        )


def read_statistics(namespace: Path) -> str:
    """Read the counters of TCP of a network namespace."""
    with enter_namespace(namespace):
        descriptor = os.open("/proc/thread-self/net/netstat", os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(descriptor) as counters:
            return counters.read()
