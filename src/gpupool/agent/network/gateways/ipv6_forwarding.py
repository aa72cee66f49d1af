"""IPv6 on the cable of gateways, and the machine's forwarding of it, put back afterwards.

A machine that forwards takes no router advertisements, and drops the default route that it has from
one, unless `accept_ra` is 2 (Documentation/networking/ip-sysctl.rst). So that goes first.
"""

from __future__ import annotations

import json
import socket
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.namespaces import import_pyroute2
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable

_SETTINGS: Final = Path("/proc/sys/net/ipv6/conf")
_FORWARDING: Final = _SETTINGS / "all/forwarding"
#: Values of `accept_ra`: of a host, and of a router too.
_AS_HOST: Final = "1"
_ALWAYS: Final = "2"
#: No duplicate address detection: the cable leads to routers of the pool alone (linux/if_addr.h).
_IFA_F_NODAD: Final = 0x02


class Ipv6Forwarding:
    """What this machine does for gateways that carry IPv6."""

    def __init__(self, record: Path) -> None:
        """Make the object; nothing changes yet.

        Args:
            record: a file for what was there before.
        """
        self._record = record

    def set_up(self, cable: str, prefix: IPv6Network) -> None:
        """Give the cable its address, and forward. Idempotent.

        Raises NetworkingUnavailable where the kernel has IPv6 off.
        """
        if not _SETTINGS.is_dir():
            raise NetworkingUnavailable(
                "gateways carry IPv4 alone: the kernel of this machine has IPv6 off",
                hint="start the kernel without ipv6.disable=1",
            )
        hosts = _list_hosts()
        before = self._read_record()
        if before is None or hosts:
            first = {"forwarding": _FORWARDING.read_text().strip(), "accept_ra": list[str]()}
            noted = first if before is None else before
            # Interfaces that came since are put back with the others.
            noted["accept_ra"] = sorted({*noted["accept_ra"], *hosts})
            write_durably(self._record, json.dumps(noted).encode())
        for name in hosts:
            _write_accept(name, _ALWAYS)
        _FORWARDING.write_text("1")
        # The cable has no neighbour that advertises.
        _write_accept(cable, "0")
        with import_pyroute2().IPRoute() as host:
            host.addr(
                "replace",
                index=host.link_lookup(ifname=cable)[0],
                address=str(prefix[1]),
                prefixlen=prefix.prefixlen,
                family=socket.AF_INET6,
                flags=_IFA_F_NODAD,
            )

    def remove(self, cable: str) -> None:
        """Take the address away, and put the machine's settings back. Idempotent."""
        before = self._read_record()
        if before is None:
            return
        with import_pyroute2().IPRoute() as host:
            for index in host.link_lookup(ifname=cable):
                host.flush_addr(index=index, family=socket.AF_INET6, scope=0)
        if before["forwarding"] == "0":
            _FORWARDING.write_text("0")
        for name in before["accept_ra"]:
            _write_accept(name, _AS_HOST)
        self._record.unlink()

    def _read_record(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        return found


def _list_hosts() -> list[str]:
    """List the interfaces, and `default` for new ones, that take advertisements as a host does."""
    found = list[str]()
    for folder in sorted(_SETTINGS.iterdir()):
        try:
            value = (folder / "accept_ra").read_text().strip()
        except FileNotFoundError:
            # The interface has just gone.
            continue
        # What `all` says counts for no interface.
        if value == _AS_HOST and folder.name != "all":
            found.append(folder.name)
    return found


def _write_accept(interface: str, value: str) -> None:
    try:
        (_SETTINGS / interface / "accept_ra").write_text(value)
    except FileNotFoundError:
        # The interface has gone since.
        return
