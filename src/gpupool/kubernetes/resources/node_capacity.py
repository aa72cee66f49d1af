"""What a Node says that it has of ours: all its cards together, so that quotas, autoscalers and
`describe` see it.

The device plugin tells the kubelet of slots alone; thousands of devices a card would break the
kubelet's 4 MiB. The two sums are extended resources in the Node's status, written by the
controller, and written again where a node that came back has lost them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base import quantities
from gpupool.base.units import WHOLE
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode

OURS = (names.GPU_MILLI, names.MEMORY)


def read_capacities(status: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """What a Node's status says of our resources."""
    has = status.get("allocatable") or {}
    amounts = []
    for name in OURS:
        if name in has:
            amounts.append((name, quantities.parse_whole(has[name])))
    return tuple(amounts)


def wanted_capacities(ledger: GpuNode | None) -> tuple[tuple[str, int], ...]:
    """What it should say; nothing for a node that we only look at."""
    if ledger is None or ledger.mode is Mode.OBSERVE or not ledger.cards:
        return ()
    sums = len(ledger.cards) * WHOLE, sum(card.memory_bytes for card in ledger.cards)
    return tuple(zip(OURS, sums, strict=True))


def capacity_patch(wanted: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    """A merge patch for a Node's status."""
    amounts: dict[str, str | None] = dict.fromkeys(OURS)
    amounts |= {name: str(amount) for name, amount in wanted}
    return {"status": {"capacity": amounts, "allocatable": amounts}}
