"""What follows from an XID and the driver's recommendation together."""

from __future__ import annotations

import itertools

import pytest

from gpupool.model.device import DeviceHealth
from gpupool.model.faults.actions import (
    RECOVERY_STEPS,
    Containment,
    RecoveryAction,
    Repair,
    choose_graver,
    choose_wider,
)
from gpupool.model.faults.catalogue import XidMark, read_xids
from gpupool.model.faults.diagnosis import diagnose_xid, judge_xid


def test_an_unlisted_xid_is_a_warning_for_a_person_to_look_at() -> None:
    found = diagnose_xid(7)
    assert (found.health, found.repair) == (DeviceHealth.WARNING, Repair.INSPECT)
    assert judge_xid(7)[1] == "driver error (XID 7)"


@pytest.mark.parametrize("recovery", RecoveryAction)
def test_the_graver_of_catalogue_and_driver_holds_for_every_xid(recovery: RecoveryAction) -> None:
    for xid, entry in read_xids().items():
        if entry.mark is XidMark.DRIVER_DECIDES:
            continue
        containment, repair = RECOVERY_STEPS[recovery]
        found = diagnose_xid(xid, recovery)
        assert found.containment == choose_wider(entry.containment, containment)
        assert found.repair == choose_graver(entry.repair, repair)


def test_a_card_fails_where_and_only_where_it_is_drained() -> None:
    for xid, recovery in itertools.product(read_xids(), (None, *RecoveryAction)):
        found = diagnose_xid(xid, recovery)
        drained = found.containment not in (Containment.NOTE, Containment.TELL_JOB)
        assert (found.health is DeviceHealth.FAILED) == drained


def test_the_driver_decides_about_a_timed_out_context_switch() -> None:
    assert diagnose_xid(109).health is DeviceHealth.FAILED
    assert diagnose_xid(109, RecoveryAction.NONE).containment is Containment.TELL_JOB
    assert diagnose_xid(109, RecoveryAction.NONE).health is DeviceHealth.OK
    assert diagnose_xid(109, RecoveryAction.GPU_RESET).repair is Repair.RESET


def test_the_drivers_word_is_in_the_reason_where_it_asks_for_something() -> None:
    assert judge_xid(13, RecoveryAction.NONE)[1].endswith("(XID 13)")
    reset = judge_xid(13, RecoveryAction.GPU_RESET)
    assert reset[0] is DeviceHealth.FAILED
    assert reset[1].endswith("(XID 13; the driver recommends gpu-reset)")
