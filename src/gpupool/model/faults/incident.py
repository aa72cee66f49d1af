"""Which XIDs of a node are one fault, which one is blamed, and what follows. Pure.

A fault makes others: a program is removed (XID 45), a link that it used fails, the driver changes its
mind (XID 154). So the XIDs of a node are one incident until the node is silent for a while, and the
first one is blamed, as in NVIDIA's fleet tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.faults.actions import (
    Containment,
    RecoveryAction,
    Repair,
    choose_graver,
    choose_wider,
)
from gpupool.model.faults.diagnosis import diagnose_xid

#: Without an XID for so long, a node's incident is over.
SILENCE_NS: Final = 180 * NANOS_PER_SECOND
#: After so many resets or reboots that did not help, a person looks at the card.
USELESS_REPAIRS: Final = 2


@dataclass(frozen=True)
class CardXid:
    """One XID of a card.

    Attributes:
        device: Any name of the card; equal for equal cards.
        at_ns: When its agent saw it, in nanoseconds since 1970.
        recovery: What the driver recommended after it; None is unknown.
    """

    device: int
    xid: int
    at_ns: int
    recovery: RecoveryAction | None = None


@dataclass(frozen=True)
class IncidentSummary:
    """What the XIDs of an incident say together."""

    blamed: CardXid
    containment: Containment
    repair: Repair


def belongs_to(first_ns: int, last_ns: int, at_ns: int) -> bool:
    """Whether an XID belongs to the incident that is known from its first to its last one."""
    return first_ns - SILENCE_NS <= at_ns <= last_ns + SILENCE_NS


def sum_up(xids: Sequence[CardXid], useless_repairs: int = 0) -> IncidentSummary:
    """Return which XID is blamed and what to do, the gravest of all.

    Args:
        xids: At least one, in any order.
        useless_repairs: Resets and reboots of the blamed card for the same XID before.
    """
    in_order = sorted(xids, key=lambda one: one.at_ns)
    found = [diagnose_xid(one.xid, one.recovery) for one in in_order]
    blamed = in_order[0]
    for one, diagnosis in zip(in_order, found, strict=True):
        if not diagnosis.follows:
            blamed = one
            break
    containment = choose_wider(*(one.containment for one in found))
    repair = choose_graver(*(one.repair for one in found))
    if repair in (Repair.RESET, Repair.REBOOT) and useless_repairs >= USELESS_REPAIRS:
        repair = Repair.INSPECT
    return IncidentSummary(blamed, containment, repair)
