"""A scanned machine in the words of the wire: what an agent registers of its node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.device import Device
from gpupool.model.numa import to_facts
from gpupool.model.partition import PartitionProfile, profile_facts
from gpupool.model.topology import topology_facts
from gpupool.probes.contract import Machine
from gpupool.wire.fleet import DeviceIn, NodeIn


def node_in(machine: Machine, agent: str, labels: Mapping[str, str], facts: Mapping[str, Any]) -> NodeIn:
    """What to register of a machine. Only simulated cards ask to start adopted; the server decides."""
    known = {
        "cpu_count": machine.cpu_count,
        "memory_bytes": machine.memory_bytes,
        "driver_version": machine.driver_version,
        "cuda_version": machine.cuda_version,
        "numa": to_facts(machine.numa),
        **facts,
    }
    return NodeIn(
        devices=[device_in(device) for device in machine.devices],
        labels=dict(labels),
        topology=topology_facts(machine.topology),
        facts={key: value for key, value in known.items() if value is not None},
        simulated=machine.simulated,
        agent=agent,
        adopt=machine.simulated,
    )


def device_in(device: Device) -> DeviceIn:
    return DeviceIn(
        uuid=device.uuid,
        index=device.index,
        vendor=device.vendor,
        product=device.product,
        model=device.model,
        memory_bytes=device.memory_bytes,
        simulated=device.simulated,
        health=device.health.value,
        health_reason=device.health_reason[:200],
        facts=device_facts(device),
    )


def device_facts(device: Device) -> dict[str, Any]:
    """What is known of a card beyond its size; what is unknown is left out."""
    facts = {
        "pci_address": device.pci_address,
        "numa_node": device.numa_node,
        "labels": dict(device.labels) or None,
        "architecture": device.architecture,
        "compute_capability": list(device.compute_capability) if device.compute_capability else None,
        "multiprocessors": device.multiprocessors,
        "driver_version": device.driver_version,
        "ecc_enabled": device.ecc_enabled,
        "partitioned": device.partitioned,
        "profiles": profile_facts(_makeable(device)) or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _makeable(device: Device) -> tuple[PartitionProfile, ...]:
    """What some mechanism can cut the card into now: what the card itself could do is not enough."""
    return tuple(dict.fromkeys(profile for one in MECHANISMS.values() for profile in one.profiles(device)))
