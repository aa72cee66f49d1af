"""Writes a machine as an entry of a machine file, so that a recorded host can be simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from gpupool.model.device import Device
from gpupool.model.numa import format_cpus
from gpupool.model.topology import LinkKind
from gpupool.probes.contract import Machine


def write_machine(machine: Machine) -> dict[str, Any]:
    """Return the document entry of a machine, without what names this very host's cards.

    Uuids, health and users are left out, so that a recorded host can be published.
    """
    position = {device.uuid: i for i, device in enumerate(machine.devices)}
    links = []
    for link in machine.topology.links:
        if link.kind is LinkKind.NVLINK:
            links.append([position[link.a], position[link.b], link.count])
    domains = {}
    for kind, groups in machine.topology.domains.items():
        if groups:
            domains[str(kind)] = [_list_positions(group, position) for group in groups]
    numa = []
    for node in machine.numa:
        memory_mib = node.memory_bytes >> 20
        cpus = format_cpus(node.cpus)
        numa.append({"number": node.number, "cpus": cpus, "memory_mib": memory_mib})
    entry = {
        "name": machine.name,
        "cpu_count": machine.cpu_count,
        "memory_mib": None if machine.memory_bytes is None else machine.memory_bytes >> 20,
        "driver_version": machine.driver_version,
        "cuda_version": machine.cuda_version,
        "cards": [_write_card(device) for device in machine.devices],
        "numa": numa,
        "nvlinks": links,
        "domains": domains,
    }
    return {key: value for key, value in entry.items() if value not in (None, [], {})}


def _list_positions(group: Iterable[str], position: Mapping[str, int]) -> list[int]:
    return sorted(position[uuid] for uuid in group)


def _write_card(device: Device) -> dict[str, Any]:
    card = {
        "model": device.model,
        "product": device.product,
        "vendor": device.vendor,
        "memory_mib": device.memory_bytes >> 20,
        "numa_node": device.numa_node,
        "pci_address": device.pci_address,
        "labels": dict(device.labels),
        "architecture": device.architecture,
        "compute_capability": device.compute_capability and list(device.compute_capability),
        "multiprocessors": device.multiprocessors,
        "driver_version": device.driver_version,
        "ecc_enabled": device.ecc_enabled,
        "partitioned": device.partitioned,
        "profiles": [asdict(p) | {"starts": list(p.starts)} for p in device.profiles],
    }
    # No profiles is a statement about a card; any other empty value says nothing.
    return {k: v for k, v in card.items() if v not in (None, {}) and (v != [] or k == "profiles")}
