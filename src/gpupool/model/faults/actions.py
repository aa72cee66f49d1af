"""What can be done about a fault, and what a driver recommends for its card."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Containment(StrEnum):
    """How far a fault reaches, from the harmless one on. The pool closes the failed card itself."""

    NOTE = "note"
    TELL_JOB = "tell-job"
    DRAIN_CARD = "drain-card"
    #: Also the cards that are joined to it by NVLink.
    DRAIN_PEERS = "drain-peers"
    DRAIN_NODE = "drain-node"


class Repair(StrEnum):
    """What makes a card well again, from the cheapest on. It is proposed and never done."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    INSPECT = "inspect"


class RecoveryAction(StrEnum):
    """What the driver recommends for a card (`NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`)."""

    NONE = "none"
    GPU_RESET = "gpu-reset"
    NODE_REBOOT = "node-reboot"
    DRAIN_P2P = "drain-p2p"
    DRAIN_AND_RESET = "drain-and-reset"
    RECOVER_IMEX = "recover-imex"
    BUS_RESET = "bus-reset"
    SYSTEM_REBOOT = "system-reboot"


#: By the number of `NVML_GPU_RECOVERY_ACTION_*`.
RECOVERY_ACTIONS: Mapping[int, RecoveryAction] = MappingProxyType(
    dict(enumerate(RecoveryAction)),
)

#: What follows from each recommendation.
RECOVERY_STEPS: Mapping[RecoveryAction, tuple[Containment, Repair]] = MappingProxyType(
    {
        RecoveryAction.NONE: (Containment.NOTE, Repair.NONE),
        RecoveryAction.GPU_RESET: (Containment.DRAIN_CARD, Repair.RESET),
        RecoveryAction.NODE_REBOOT: (Containment.DRAIN_NODE, Repair.REBOOT),
        RecoveryAction.DRAIN_P2P: (Containment.DRAIN_PEERS, Repair.RESET),
        RecoveryAction.DRAIN_AND_RESET: (Containment.DRAIN_CARD, Repair.RESET),
        RecoveryAction.RECOVER_IMEX: (Containment.DRAIN_NODE, Repair.INSPECT),
        RecoveryAction.BUS_RESET: (Containment.DRAIN_CARD, Repair.RESET),
        RecoveryAction.SYSTEM_REBOOT: (Containment.DRAIN_NODE, Repair.REBOOT),
    }
)

_CONTAINMENTS = tuple(Containment)
_REPAIRS = tuple(Repair)


def choose_wider(*found: Containment) -> Containment:
    """Return the containment that reaches farthest.

    >>> str(choose_wider(Containment.TELL_JOB, Containment.DRAIN_CARD, Containment.NOTE))
    'drain-card'
    """
    return max(found, key=_CONTAINMENTS.index)


def choose_graver(*found: Repair) -> Repair:
    """Return the repair that costs most.

    >>> str(choose_graver(Repair.RESET, Repair.NONE))
    'reset'
    """
    return max(found, key=_REPAIRS.index)
