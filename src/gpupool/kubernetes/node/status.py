"""Builds `GpuNode.status` from what the agent knows of its node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gpupool import __version__
from gpupool.kubernetes.resources.gpu_node_status import (
    MOST_PIECES,
    ReportedCard,
    ShareIsolation,
    SlotUse,
)
from gpupool.kubernetes.resources.pod_requests import sum_foreign_usage
from gpupool.mechanisms.foreign_pieces import ForeignPieces
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.claim import SharingKind
from gpupool.model.device import Device, DeviceHealth
from gpupool.model.partition import ForeignPiece, PartitionProfile
from gpupool.model.sharing_default import explain_ignored_label, find_default
from gpupool.model.topology import Topology, write_topology

_NONE: ForeignPieces = MappingProxyType({})


def build_status(
    cards: Sequence[Device],
    topology: Topology,
    used: Iterable[SlotUse],
    pods: Iterable[Mapping[str, Any]],
    slot_count: int,
    observed: int,
    *,
    labels: Mapping[str, str],
    foreign: ForeignPieces = _NONE,
    shares: Mapping[str, ShareIsolation] = MappingProxyType({}),
) -> dict[str, Any]:
    """The status to report.

    Args:
        labels: of the Node.
        foreign: what other tools have made of the cards.
        shares: by card, what is enforced in a share of it.
        observed: the version of the ledger that the agent has acted upon.
    """
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "AgentRuns",
        "message": f"gpupool {__version__}",
    }
    reports = []
    for device in cards:
        card = _report_card(device, foreign.get(device.uuid, ()))
        reports.append(replace(card, share=shares.get(device.uuid)).to_json())
    return {
        "observedGeneration": observed,
        "slotCount": slot_count,
        "agent": __version__,
        "readsText": True,
        "cards": reports,
        "topology": write_topology(topology),
        "slots": [one.to_json() for one in used],
        "others": sum_foreign_usage(pods).limit_parts().to_json(),
        "sharingDefault": str(find_default(labels) or SharingKind.FIXED),
        "conditions": [ready, _build_health_condition(cards), *_list_label_conditions(labels)],
    }


def _build_health_condition(cards: Iterable[Device]) -> dict[str, str]:
    failed = (card for card in cards if card.health is DeviceHealth.FAILED)
    ill = "; ".join(f"card {card.index} ({card.uuid}): {card.health_reason}" for card in failed)
    if not ill:
        return {"type": "CardsHealthy", "status": "True", "reason": "AllWell", "message": ""}
    # Messages of a GpuNode's conditions hold 1,024 characters (its schema).
    return {
        "type": "CardsHealthy",
        "status": "False",
        "reason": "CardsFailed",
        "message": ill[:1024],
    }


def _list_label_conditions(labels: Mapping[str, str]) -> list[dict[str, str]]:
    """Return a condition for a label that names no default; otherwise nothing."""
    problem = explain_ignored_label(labels)
    if not problem:
        return []
    return [
        {
            "type": "SharingDefault",
            "status": "False",
            "reason": "LabelIgnored",
            "message": problem,
        }
    ]


def _report_card(device: Device, foreign: Sequence[ForeignPiece]) -> ReportedCard:
    return ReportedCard(
        device.uuid,
        device.index,
        device.model,
        device.memory_bytes,
        device.product,
        device.health,
        device.health_reason[:200],
        device.simulated,
        device.vendor,
        list_profiles(device),
        tuple(foreign[:MOST_PIECES]),
    )


def list_profiles(device: Device) -> tuple[PartitionProfile, ...] | None:
    """Return what a mechanism of this node can cut the card into; None unless it is in the mode."""
    if not device.partitioned:
        return None
    found = dict[PartitionProfile, None]()
    for mechanism in MECHANISMS.values():
        found.update(dict.fromkeys(mechanism.list_profiles(device)))
    return tuple(found)
