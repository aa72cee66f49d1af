"""Taps of VMs, in the namespace of the switch: made, listed by port, and removed with their port.

A tap belongs to no account, so none but root can open it: the supervisor of a VM does, and hands it
to QEMU as an open file. It stays while no QEMU has it. Needs the extra `network` (pyroute2).
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any, Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import (
    enter_namespace,
    import_pyroute2,
    name_interface,
    turn_checksum_off,
)
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.networks import PortWork

#: From linux/if_tun.h.
_TUNSETIFF: Final = 0x400454CA
_TUNSETPERSIST: Final = 0x400454CB
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000
_TUN_DEVICE: Final = "/dev/net/tun"
#: What `name_interface` puts in place of the first letters of a port.
_MARK: Final = name_interface("n-")


class VmTaps:
    """The taps of the VMs of one agent."""

    def __init__(self, files: EngineFiles) -> None:
        self._switch = files.namespace

    def create(self, work: PortWork) -> str:
        """Make the tap of a port, and return its name. Idempotent.

        Raises NetworkingUnavailable where this machine has no taps.
        """
        name = name_interface(work.id)
        with enter_namespace(self._switch), import_pyroute2().IPRoute() as switch:
            if not switch.link_lookup(ifname=name):
                _make_persistent_tap(name)
            index = switch.link_lookup(ifname=name)[0]
            turn_checksum_off(name)
            switch.link("set", index=index, mtu=work.mtu, state="up")
        return name

    def list_ports(self) -> list[str]:
        """List the ports that have a tap."""
        if not self._switch.exists():
            return []
        found = list[str]()
        with enter_namespace(self._switch), import_pyroute2().IPRoute() as switch:
            for link in switch.get_links():
                name = link.get_attr("IFLA_IFNAME")
                if _is_tap(link) and name.startswith(_MARK):
                    found.append(f"n-{name.removeprefix(_MARK)}")
        return sorted(found)


def _is_tap(link: Any) -> bool:
    information = link.get_attr("IFLA_LINKINFO")
    return information is not None and information.get_attr("IFLA_INFO_KIND") == "tun"


def _make_persistent_tap(name: str) -> None:
    """Make a tap in this thread's namespace that stays when it is closed."""
    try:
        tap = os.open(_TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise NetworkingUnavailable(
            f"VMs join networks by {_TUN_DEVICE}: {error.strerror}", hint="modprobe tun"
        ) from error
    try:
        fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        fcntl.ioctl(tap, _TUNSETPERSIST, 1)
    finally:
        os.close(tap)
