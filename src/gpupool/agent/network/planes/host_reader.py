"""Reads adapters of RDMA and connections to storage from sysfs. Reads alone, and needs no rights.

Files: Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-net of the kernel,
/proc/net/vlan/config (net/8021q/vlanproc.c), drivers/nvme/host/sysfs.c, /etc/nvme/hostnqn of
nvme-cli.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gpupool.probes.common.sysfs import read_link_name, read_text
from gpupool.wire.network.planes import FabricPort, PlaneReading, RailInterface

#: Groups of a GID's text that are the subnet's prefix; the rest is the port's GUID (InfiniBand, 4.1.1).
_PREFIX_GROUPS: Final = 4
_VLAN_LINE: Final = re.compile(r"^\s*(\S+)\s*\|\s*(\d+)\s*\|\s*(\S+)\s*$")


def read_planes(root: Path, node: str) -> PlaneReading | None:
    """Read what a machine shows of planes; None: it has no adapter for RDMA and no NVMe host.

    Args:
        root: of the machine's files, `/` but in tests.
        node: how the pool knows the machine.

    Raises:
        OSError, ValueError: a key or the state of a port cannot be read, so there could be any.
    """
    ports = list(_read_fabric_ports(root))
    rails = list(_read_rails(root))
    hosts, subsystems = _read_storage(root)
    if not (ports or rails or hosts or subsystems):
        return None
    return PlaneReading(
        node=node, ports=ports, rails=rails, nvme_hosts=hosts, nvme_subsystems=subsystems
    )


def _list_entries(directory: Path) -> list[Path]:
    """List a directory in the order of names; empty where it is missing."""
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _list_ports(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each port of each RDMA device that has a link, with the device."""
    for device in _list_entries(root / "sys/class/infiniband"):
        for port in _list_entries(device / "ports"):
            # As "4: ACTIVE".
            if _require_text(port / "state").endswith("ACTIVE"):
                yield device, port


def _require_text(path: Path) -> str:
    text = read_text(path)
    if text is None:
        raise ValueError(f"{path} cannot be read")
    return text


def _read_fabric_ports(root: Path) -> Iterator[FabricPort]:
    for device, port in _list_ports(root):
        if read_text(port / "link_layer") != "InfiniBand":
            continue
        guid = "".join((read_text(port / "gids/0") or "").split(":")[_PREFIX_GROUPS:])
        keys = {_require_text(entry) for entry in _list_entries(port / "pkeys")}
        # Empty places of the table are 0x0000.
        used = sorted(key for key in keys if int(key, 16))
        yield FabricPort(name=f"{device.name}/{port.name}", guid=f"0x{guid or 0}", keys=used)


def _read_rails(root: Path) -> Iterator[RailInterface]:
    vlans = _read_vlans(root)
    for device, port in _list_ports(root):
        if read_text(port / "link_layer") != "Ethernet":
            continue
        for interface in _list_entries(device / "device/net"):
            uppers = _list_masters(root, interface.name)
            numbers = set[int]()
            for name in (interface.name, *uppers):
                numbers |= vlans.get(name, set())
            yield RailInterface(name=interface.name, vlans=sorted(numbers), masters=uppers)


def _list_masters(root: Path, interface: str) -> list[str]:
    """List what an interface is part of: a bond, a bridge or a VRF, and what that is part of."""
    found = list[str]()
    name = read_link_name(root / "sys/class/net" / interface / "master")
    while name is not None and name not in found:
        found.append(name)
        name = read_link_name(root / "sys/class/net" / name / "master")
    return found


def _read_vlans(root: Path) -> Mapping[str, set[int]]:
    """Read the numbers of VLAN interfaces by the interface that they are on."""
    found: dict[str, set[int]] = defaultdict(set)
    for line in (read_text(root / "proc/net/vlan/config") or "").splitlines():
        if match := _VLAN_LINE.match(line):
            found[match[3]].add(int(match[2]))
    return found


def _read_storage(root: Path) -> tuple[list[str], list[str]]:
    """Read the NVMe hosts that the machine shows itself as, and the subsystems over fabrics."""
    hosts = {read_text(root / "etc/nvme/hostnqn")}
    subsystems = set[str | None]()
    for controller in _list_entries(root / "sys/class/nvme"):
        # A disk of the machine itself is no connection.
        if read_text(controller / "transport") in (None, "pcie"):
            continue
        hosts.add(read_text(controller / "hostnqn"))
        subsystems.add(read_text(controller / "subsysnqn"))
    return sorted(filter(None, hosts)), sorted(filter(None, subsystems))
