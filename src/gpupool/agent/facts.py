"""Translates a scanned machine into the registration of its node. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.card_modes import SWITCHES, list_mode_offers
from gpupool.mechanisms.foreign_pieces import ForeignPieces
from gpupool.mechanisms.offers.card_offers import list_node_offers
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.device import CardMode, Device
from gpupool.model.isolation.host_facts import HostFacts
from gpupool.model.isolation.mechanism_offer import CardOffers, write_offers
from gpupool.model.numa import write_numa_nodes
from gpupool.model.partition import (
    ForeignPiece,
    PartitionProfile,
    write_foreign_pieces,
    write_profiles,
)
from gpupool.model.topology import write_topology
from gpupool.probes.contract import Machine
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.wire.fleet import DeviceIn, NodeIn

_NONE: ForeignPieces = MappingProxyType({})


def describe_node(
    machine: Machine,
    agent: str,
    labels: Mapping[str, str],
    facts: Mapping[str, Any],
    host: HostFacts,
    foreign: ForeignPieces = _NONE,
) -> NodeIn:
    """Describe a machine for its registration.

    Only simulated cards ask to be adopted at once; the server decides.

    Args:
        machine: What the scan found.
        agent: The agent's name.
        labels: The node's labels.
        facts: Further facts; None values are left out.
        host: What decides which mechanisms the node offers.
        foreign: What other tools have made of the cards.
    """
    offers = list_node_offers(machine.devices, host)
    known = {
        "cpu_count": machine.cpu_count,
        "memory_bytes": machine.memory_bytes,
        "driver_version": machine.driver_version,
        "cuda_version": machine.cuda_version,
        "numa": write_numa_nodes(machine.numa),
        **facts,
    }
    return NodeIn(
        devices=[
            describe_device(device, offers[device.uuid], foreign.get(device.uuid, ()))
            for device in machine.devices
        ],
        labels=dict(labels),
        topology=write_topology(machine.topology),
        facts={key: value for key, value in known.items() if value is not None},
        simulated=machine.simulated,
        agent=agent,
        adopt=machine.simulated,
    )


def describe_device(
    device: Device, offers: CardOffers, foreign: Sequence[ForeignPiece] = ()
) -> DeviceIn:
    """Describe one device, with what its mechanisms offer, for the registration of its node."""
    facts = {**list_device_facts(device), "mechanisms": write_offers(offers)}
    if foreign:
        facts["foreign"] = write_foreign_pieces(foreign)
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
        facts=facts,
    )


def list_device_facts(device: Device) -> dict[str, Any]:
    """List what is known of a card beyond its size; unknown facts are left out."""
    capability = list(device.compute_capability) if device.compute_capability else None
    facts = {
        "pci_address": device.pci_address,
        "numa_node": device.numa_node,
        "labels": dict(device.labels) or None,
        "architecture": device.architecture,
        "compute_capability": capability,
        "multiprocessors": device.multiprocessors,
        "driver_version": device.driver_version,
        "ecc_enabled": device.ecc_enabled,
        "partitioned": device.partitioned,
        "profiles": write_profiles(_list_profiles(device)) or None,
        "mode": str(device.mode) if device.mode is not CardMode.PLAIN else None,
        "modes": _list_modes(device) or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _list_modes(device: Device) -> list[dict[str, Any]]:
    """List what the switches of this node offer for the card, with their steps."""
    found = []
    for offer in list_mode_offers(device):
        blocked_by = offer.blocked_by
        steps: tuple[str, ...] = ()
        try:
            steps = SWITCHES[offer.mode].list_steps(device)
        except (GpupoolError, OSError) as error:
            # A driver that does not answer must not keep its node from registering.
            blocked_by = blocked_by or f"its steps cannot be read: {error}"
        described: dict[str, Any] = {
            "mode": str(offer.mode),
            "needs": str(offer.needs),
            "seconds": offer.seconds,
            "blocked_by": blocked_by,
            "steps": list(steps),
        }
        if offer.mode is CardMode.MIG and _has_own_profiles(device):
            described["profiles"] = write_profiles(device.profiles)
        found.append(described)
    return found


def _has_own_profiles(device: Device) -> bool:
    """Whether a card out of MIG mode has other profiles than its board is known for.

    They let people plan before the switch. The known ones are not repeated for each card.
    """
    is_known = device.profiles == list_mig_profiles(device.model)
    return bool(device.profiles) and not device.partitioned and not is_known


def _list_profiles(device: Device) -> tuple[PartitionProfile, ...]:
    """List the partitions that some mechanism here can make of the card, each once."""
    profiles: dict[PartitionProfile, None] = {}
    for mechanism in MECHANISMS.values():
        profiles.update(dict.fromkeys(mechanism.list_profiles(device)))
    return tuple(profiles)
