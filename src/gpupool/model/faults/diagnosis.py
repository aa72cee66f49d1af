"""Judges an XID together with what the driver recommends for its card. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.model.device import DeviceHealth
from gpupool.model.faults.actions import (
    RECOVERY_STEPS,
    Containment,
    RecoveryAction,
    Repair,
    choose_graver,
    choose_wider,
)
from gpupool.model.faults.catalogue import XidEntry, XidMark, read_xids


@dataclass(frozen=True)
class FaultDiagnosis:
    """What follows from an XID.

    Attributes:
        health: How the card is after it.
        follows: Whether it only reports what another XID did.
    """

    containment: Containment
    repair: Repair
    health: DeviceHealth
    meaning: str
    follows: bool = False


def diagnose_xid(xid: int, recovery: RecoveryAction | None = None) -> FaultDiagnosis:
    """Return what follows from an XID and the card's recovery action, the graver of both.

    Args:
        recovery: What the driver recommends after it; None is unknown.

    >>> str(diagnose_xid(13).containment), str(diagnose_xid(13, RecoveryAction.GPU_RESET).repair)
    ('tell-job', 'reset')
    """
    entry = read_xids().get(xid)
    if entry is None:
        # The driver is newer than the catalogue: a person must look, and the pool closes nothing.
        entry = XidEntry(
            xid, "", "", "", Containment.NOTE, Repair.INSPECT, XidMark.NONE, "driver error"
        )
    containment = entry.containment
    repair = entry.repair
    if entry.mark is XidMark.DRIVER_DECIDES and recovery is RecoveryAction.NONE:
        containment = Containment.TELL_JOB
        repair = Repair.NONE
    if recovery is not None:
        wanted, cure = RECOVERY_STEPS[recovery]
        containment = choose_wider(containment, wanted)
        repair = choose_graver(repair, cure)
    return FaultDiagnosis(
        containment,
        repair,
        _judge_health(entry, containment, repair),
        entry.meaning,
        entry.mark is XidMark.FOLLOWS,
    )


def judge_xid(xid: int, recovery: RecoveryAction | None = None) -> tuple[DeviceHealth, str]:
    """Return what an XID says about a card. One that a program caused leaves it well.

    >>> judge_xid(79)
    (<DeviceHealth.FAILED: 'failed'>, 'the card has fallen off the bus (XID 79)')
    """
    found = diagnose_xid(xid, recovery)
    words = f"XID {xid}"
    if recovery not in (None, RecoveryAction.NONE):
        words += f"; the driver recommends {recovery}"
    return found.health, f"{found.meaning} ({words})"


def _judge_health(entry: XidEntry, containment: Containment, repair: Repair) -> DeviceHealth:
    if containment not in (Containment.NOTE, Containment.TELL_JOB):
        return DeviceHealth.FAILED
    if repair is not Repair.NONE or entry.mark is XidMark.COUNTED:
        return DeviceHealth.WARNING
    return DeviceHealth.OK
