"""Reads how the cards of a host are joined: NVLink, and their common ancestors on the PCI bus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gpupool.model.device import Device
from gpupool.model.topology import DeviceLink, LinkKind, Topology, join_groups
from gpupool.probes.nvml.driver import NvmlDriver, decode_text, format_pci_address


def read_topology(
    driver: NvmlDriver, devices: tuple[Device, ...], handles: Mapping[str, Any]
) -> Topology:
    links, switched = _read_nvlinks(driver, devices, handles)
    levels = _read_ancestors(driver, devices, handles)
    nvml = driver.nvml
    domains = {
        LinkKind.NVSWITCH: (switched,) if len(switched) > 1 else (),
        LinkKind.PCIE_SWITCH: _group_cards(levels, nvml.NVML_TOPOLOGY_MULTIPLE),
        LinkKind.HOST_BRIDGE: _group_cards(levels, nvml.NVML_TOPOLOGY_HOSTBRIDGE),
        LinkKind.NUMA: _group_cards(levels, nvml.NVML_TOPOLOGY_NODE),
    }
    numa = {d.uuid: d.numa_node for d in devices if d.numa_node is not None}
    known = {kind: groups for kind, groups in domains.items() if groups}
    uuids = tuple(device.uuid for device in devices)
    return Topology(uuids, links, numa, known)


def _read_ancestors(
    driver: NvmlDriver, devices: tuple[Device, ...], handles: Mapping[str, Any]
) -> dict[tuple[str, str], int]:
    ask = driver.nvml.nvmlDeviceGetTopologyCommonAncestor
    levels = {}
    for a, b in combinations([device.uuid for device in devices], 2):
        level = driver.ask(ask, handles[a], handles[b])
        if level is not None:
            levels[a, b] = int(level)
    return levels


def _read_nvlinks(
    driver: NvmlDriver, devices: tuple[Device, ...], handles: Mapping[str, Any]
) -> tuple[tuple[DeviceLink, ...], frozenset[str]]:
    """Return the links between cards of this machine, and the cards with a link to a switch."""
    by_address = {d.pci_address: d.uuid for d in devices if d.pci_address}
    counts: dict[tuple[str, str], int] = {}
    switched: set[str] = set()
    for device in devices:
        for address in _iterate_remote_ends(driver, handles[device.uuid]):
            if address is None:
                switched.add(device.uuid)
            elif other := by_address.get(address):
                counts[device.uuid, other] = counts.get((device.uuid, other), 0) + 1
    links = []
    for a, b in sorted({(min(pair), max(pair)) for pair in counts}):
        # Each end counts its links. One end may fail to answer, so the larger count is right.
        count = max(counts.get((a, b), 0), counts.get((b, a), 0))
        links.append(DeviceLink(a, b, LinkKind.NVLINK, count))
    return tuple(links), frozenset(switched)


def _iterate_remote_ends(driver: NvmlDriver, handle: Any) -> Iterator[str | None]:
    """Yield the PCI address at the other end of each active link, None for a switch."""
    nvml = driver.nvml
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        active, error = driver.try_call(nvml.nvmlDeviceGetNvLinkState, handle, number)
        if error in (nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return  # past the last link of this card
        if not active:
            continue
        kind = driver.ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
        remote = driver.ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            yield None
        elif remote is not None:
            yield format_pci_address(decode_text(remote.busId))


def _group_cards(
    levels: Mapping[tuple[str, str], int], farthest: int
) -> tuple[frozenset[str], ...]:
    """Return the sets of cards whose common ancestor is at most `farthest` away."""
    # PCI is a tree, so the sets are disjoint.
    near = [frozenset(pair) for pair, level in levels.items() if level <= farthest]
    return tuple(sorted(join_groups(near), key=min))
