"""What an agent says of its node, in the words of `GpuNode.status`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpupool import __version__
from gpupool.kubernetes.amounts import others_of
from gpupool.kubernetes.reported import Card, SlotUse
from gpupool.model.device import Device, Health
from gpupool.model.topology import Topology, topology_facts


def status_of(
    cards: Sequence[Device],
    topology: Topology,
    used: Iterable[SlotUse],
    pods: Iterable[Mapping[str, Any]],
    slot_count: int,
    observed: int,
) -> dict[str, Any]:
    """`observed` is the version of the ledger that was acted upon."""
    ready = {"type": "Ready", "status": "True", "reason": "AgentRuns", "message": f"gpupool {__version__}"}
    return {
        "observedGeneration": observed,
        "slotCount": slot_count,
        "agent": __version__,
        "readsText": True,
        "cards": [_card(device).to_json() for device in cards],
        "topology": topology_facts(topology),
        "slots": [one.to_json() for one in used],
        "others": others_of(pods).to_json(),
        "conditions": [ready, _healthy(cards)],
    }


def _healthy(cards: Iterable[Device]) -> dict[str, str]:
    failed = (card for card in cards if card.health is Health.FAILED)
    ill = "; ".join(f"card {card.index} ({card.uuid}): {card.health_reason}" for card in failed)
    told = ("False", "CardsFailed", ill[:1024]) if ill else ("True", "AllWell", "")
    return {"type": "CardsHealthy", **dict(zip(("status", "reason", "message"), told, strict=True))}


def _card(device: Device) -> Card:
    return Card(
        device.uuid,
        device.index,
        device.model,
        device.memory_bytes,
        device.product,
        device.health,
        device.health_reason[:200],
        device.simulated,
        device.vendor,
    )
