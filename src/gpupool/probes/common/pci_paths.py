"""Computes how near cards are on the PCI bus, and which device files they have, from sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpupool.model.device import Device
from gpupool.model.topology import DeviceLink, LinkKind, Topology, join_groups

_NODE: Final = re.compile(r"(card|renderD)\d+")


def build_topology(
    devices: tuple[Device, ...], sys_root: Path, links: Iterable[DeviceLink] = ()
) -> Topology:
    """Return the topology of cards with known addresses; `links` are direct ones between cards."""
    uuids = tuple(device.uuid for device in devices)
    numa = {d.uuid: d.numa_node for d in devices if d.numa_node is not None}
    domains = {
        # A root port has one device below it, so cards that share the port are behind one switch.
        LinkKind.PCIE_SWITCH: _group_by_path(devices, sys_root, 2),
        LinkKind.HOST_BRIDGE: _group_by_path(devices, sys_root, 1),
    }
    known = {kind: groups for kind, groups in domains.items() if groups}
    return Topology(uuids, tuple(links), numa, known)


def _group_by_path(
    devices: Iterable[Device], sys_root: Path, depth: int
) -> tuple[frozenset[str], ...]:
    """Return the sets of cards whose paths from the root of the bus agree in `depth` steps."""
    cards: dict[tuple[str, ...], set[str]] = {}
    for device in devices:
        steps = _list_steps(device.pci_address, sys_root)
        if len(steps) > depth:
            cards.setdefault(steps[:depth], set()).add(device.uuid)
    groups = [frozenset(group) for group in cards.values() if len(group) > 1]
    return tuple(sorted(join_groups(groups), key=min))


def _list_steps(address: str | None, sys_root: Path) -> tuple[str, ...]:
    """Return the bridges from the root of the bus to a card, and the card."""
    entry = sys_root / "bus/pci/devices" / (address or "")
    if address is None or not entry.exists():
        return ()
    # Such as /sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0.
    parts = entry.resolve().parts
    roots = [number for number, part in enumerate(parts) if part.startswith("pci")]
    return parts[roots[-1] :] if roots else ()


def list_drm_nodes(address: str | None, sys_root: Path) -> tuple[str, ...]:
    """Return the graphics nodes of the card at a PCI address: `/dev/dri/card0` and its like."""
    folder = sys_root / "bus/pci/devices" / (address or "") / "drm"
    if address is None or not folder.is_dir():
        return ()
    # Connectors such as card0-DP-1 are in the same directory.
    nodes = [entry.name for entry in folder.iterdir() if _NODE.fullmatch(entry.name)]
    return tuple(sorted(f"/dev/dri/{node}" for node in nodes))
