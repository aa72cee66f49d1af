"""Which XIDs are one incident, which one is blamed, and what is proposed."""

from __future__ import annotations

from gpupool.model.faults.actions import Containment, RecoveryAction, Repair
from gpupool.model.faults.incident import SILENCE_NS, CardXid, belongs_to, sum_up


def test_an_incident_takes_xids_until_three_minutes_of_silence() -> None:
    assert belongs_to(10, 20, 20 + SILENCE_NS)
    assert not belongs_to(10, 20, 21 + SILENCE_NS)
    assert belongs_to(SILENCE_NS, SILENCE_NS + 9, 0), "a report may come late"


def test_the_first_xid_is_blamed_and_the_gravest_decides() -> None:
    found = sum_up([CardXid(2, 79, 30), CardXid(1, 94, 10), CardXid(1, 95, 20)])
    assert (found.blamed.device, found.blamed.xid) == (1, 94)
    assert (found.containment, found.repair) == (Containment.DRAIN_NODE, Repair.REBOOT)


def test_an_xid_that_follows_others_is_blamed_only_where_it_is_alone() -> None:
    follower = CardXid(1, 45, 10)
    assert sum_up([follower]).blamed is follower
    cause = CardXid(1, 13, 11)
    assert sum_up([follower, cause]).blamed is cause


def test_what_the_driver_recommends_counts_for_the_incident() -> None:
    found = sum_up([CardXid(1, 154, 10, RecoveryAction.NODE_REBOOT)])
    assert (found.containment, found.repair) == (Containment.DRAIN_NODE, Repair.REBOOT)


def test_after_two_repairs_in_vain_a_person_looks_and_a_contained_error_never_asks() -> None:
    assert sum_up([CardXid(1, 79, 10)], 1).repair is Repair.REBOOT
    assert sum_up([CardXid(1, 79, 10)], 2).repair is Repair.INSPECT
    assert sum_up([CardXid(1, 94, 10)], 9).repair is Repair.NONE
