"""What people see of incidents, and what accept and close refuse."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    CardStillFailed,
    IncidentOver,
    NothingProposed,
    RepairBlocked,
    UnknownIncident,
)
from gpupool.model.tenant import UserRole
from gpupool.wire.faults.incidents import IncidentCloseIn
from gpupool.wire.samples import DeviceSample, ProcessOut, UsageOut
from tests.support.house import House
from tests.unit.allocations.faults.test_recording import S, fault, incidents, tell


def run_job(house: House, name: str, **options: object) -> None:
    """Start a job on card 0, which the placer fills first."""
    house.submit(300, 8, name=name, **options)
    house.allocations.placer.run_cycle()
    job = house.job(name)
    item = next(item for item in house.work() if item.job == job.id)
    house.report(item, "running", started_ns=5)


def card_of(house: House, name: str) -> int:
    job = house.job(name)
    return next(item for item in house.work() if item.job == job.id).seats[0].index


def set_health(house: House, card: int, health: str) -> None:
    sample = DeviceSample(
        uuid=f"GPU-node-1-{card}", usage=UsageOut(), health=health, health_reason="XID"
    )
    house.fleet.record_observations("node-1", [sample])


def test_a_repair_is_refused_while_a_job_or_a_process_is_on_its_card(house: House) -> None:
    run_job(house, "train")
    card = card_of(house, "train")
    tell(house, fault(card, 48, house.store.clock.now_ns()))
    (only,) = incidents(house)
    assert only.next == f"gpupool release node-1:{card} --drain"
    with pytest.raises(RepairBlocked) as refused:
        house.allocations.faults.accept(house.admin, only.id)
    assert (refused.value.details["shares"], refused.value.hint) == (1, only.next)
    house.finish("train")
    stray = DeviceSample(
        uuid=f"GPU-node-1-{card}",
        usage=UsageOut(utilization_percent=1),
        unmanaged=[ProcessOut(pid=9, name="python")],
    )
    house.fleet.record_observations("node-1", [stray])
    with pytest.raises(RepairBlocked) as refused:
        house.allocations.faults.accept(house.admin, only.id)
    assert (refused.value.details["shares"], refused.value.details["processes"]) == (0, 1)
    gone = stray.model_copy(update={"unmanaged": []})
    house.fleet.record_observations("node-1", [gone])
    accepted = house.allocations.faults.accept(house.admin, only.id)
    assert accepted.next == f"nvidia-smi --gpu-reset -i GPU-node-1-{card}"
    again = house.allocations.faults.accept(house.admin, only.id)
    assert again.accepted_ns == accepted.accepted_ns


def test_a_reboot_and_an_nvlink_fault_need_the_whole_node_free(house: House) -> None:
    run_job(house, "train")
    other = 1 - card_of(house, "train")
    tell(house, fault(other, 74, house.store.clock.now_ns()))
    (only,) = incidents(house)
    assert only.repair == "inspect"
    assert house.allocations.faults.accept(house.admin, only.id).state == "accepted"
    tell(house, fault(other, 136, house.store.clock.now_ns(), recovery="drain-p2p"))
    graver = incidents(house)[0]
    tell(house, fault(other, 79, house.store.clock.now_ns() + 1000 * S))
    reboot = incidents(house)[1]
    assert (graver.containment, reboot.repair) == ("drain-peers", "reboot")
    with pytest.raises(RepairBlocked):
        house.allocations.faults.accept(house.admin, reboot.id)


def test_an_incident_closes_when_its_cards_are_well_or_by_an_explicit_word(house: House) -> None:
    faults = house.allocations.faults
    set_health(house, 0, "failed")
    tell(house, fault(0, 48, house.store.clock.now_ns()))
    (only,) = incidents(house)
    with pytest.raises(CardStillFailed) as refused:
        faults.close(house.admin, only.id, IncidentCloseIn())
    assert refused.value.details["cards"] == ["node-1:0"]
    closed = faults.close(house.admin, only.id, IncidentCloseIn(note="sent in", still_failed=True))
    assert (closed.state, closed.note, closed.next) == ("closed", "sent in", "")
    assert faults.close(house.admin, only.id, IncidentCloseIn(note="again")).note == "sent in"
    assert faults.list_incidents(house.admin, node=None, every=False, limit=9) == []
    with pytest.raises(IncidentOver):
        faults.accept(house.admin, only.id)


def test_a_tenant_sees_the_incident_that_ended_its_job_and_no_other_name(house: House) -> None:
    for tenant in ("blue", "red"):
        house.tenancy.tenants.create(house.admin, tenant, None)
    ann = house.member("ann", "blue")
    bob = house.member("bob", "red")
    operator = house.member("op", "default", UserRole.OPERATOR)
    run_job(house, "hers", principal=ann)
    run_job(house, "his", principal=bob)
    card = card_of(house, "hers")
    assert card == card_of(house, "his")
    set_health(house, card, "failed")
    faults = house.allocations.faults
    tell(house, fault(card, 94, house.store.clock.now_ns()), fault(1 - card, 13, 1))
    incident = next(one for one in incidents(house) if one.xid == 94)
    assert faults.list_incidents(ann, node=None, every=True, limit=9) == []
    house.finish("hers", exit_code=1)
    faults.close(operator, incident.id, IncidentCloseIn(note="red too", still_failed=True))
    (seen,) = faults.list_incidents(ann, node=None, every=True, limit=9)
    assert (seen.id, seen.jobs) == (incident.id, 1)
    shown = faults.find(ann, incident.id)
    assert [one.name for one in shown.affected] == ["hers"]
    assert shown.affected[0].ended_by_fault
    assert (shown.note, shown.closed_by) == ("", None)
    assert shown.next == f"gpupool show {shown.affected[0].job}"
    assert "red" not in shown.model_dump_json()
    with pytest.raises(UnknownIncident):
        faults.find(bob, incident.id)
    assert {one.name for one in faults.find(operator, incident.id).affected} == {"hers", "his"}


def test_a_fault_ended_the_job_that_failed_and_not_the_one_that_ended_well(house: House) -> None:
    run_job(house, "done")
    run_job(house, "crash")
    card = card_of(house, "done")
    assert card == card_of(house, "crash")
    house.finish("crash", exit_code=1)
    tell(house, fault(card, 31, house.store.clock.now_ns()))
    house.finish("done")
    (only,) = incidents(house)
    ended = {one.name: one.ended_by_fault for one in only.affected}
    assert ended == {"crash": True, "done": False}
    assert (only.containment, only.next) == ("tell-job", f"gpupool faults close {only.id}")
    with pytest.raises(NothingProposed):
        house.allocations.faults.accept(house.admin, only.id)
