"""Work that gives way: whole gangs leave and wait again, and their seats go to whom they were freed
for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.beneficiaries import read_eviction_beneficiaries
from gpupool.allocations.store.tables import allocations, jobs, launches
from gpupool.fleet.tables import devices
from gpupool.metering.tables import delivered, intervals
from gpupool.model.allocation import AllocationState
from gpupool.model.tenant import UserRole
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.store.tables import events
from gpupool.wire.fleet import ReportIn, ReportsIn, WorkOut
from gpupool.wire.people import QuotaIn
from gpupool.wire.samples import DeviceSample, JobSample, UsageOut
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House

AT_ONCE = PreemptionRules(protected_s=0, grace_s=7)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two cards; who has just started may be preempted too."""
    made = House(tmp_path, rules=AT_ONCE)
    yield made
    made.close()


def start(house: House, name: str, **options: object) -> WorkOut:
    """A job of a whole card that runs."""
    options.setdefault("preemptible", True)
    house.submit(1000, None, name=name, **options)
    item = next(one for one in house.work() if one.job_name.partition(".")[0] == name)
    house.report(item, "running", started_ns=5)
    return item


def told(house: House, kind: str) -> list[str]:
    with house.store.read() as connection:
        query = sa.select(events.c.data).where(events.c.kind == kind).order_by(events.c.seq)
        return [row.data["name"] for row in connection.execute(query)]


def stops(house: House) -> dict[str, str]:
    return {one.job_name: one.stop_reason for one in house.work() if one.want == "stop"}


def ended(house: House, name: str, **how: object) -> None:
    item = next(one for one in house.work() if one.job_name == name)
    house.report(item, "ended", **{"reason": "stopped", "signal": 15, **how})


def test_a_job_of_higher_priority_gets_the_seats_of_one_that_may_be_preempted(house: House) -> None:
    start(house, "low")
    start(house, "firm", preemptible=False)
    urgent = house.submit(1000, None, name="urgent", priority="high")
    assert urgent.state == "pending"
    assert stops(house) == {"low": "preempted"}
    assert next(one for one in house.work() if one.job_name == "low").grace_seconds == 7
    assert house.job("low").state == "running", "it saves its work"
    ended(house, "low")
    low = house.job("low")
    assert (low.state, low.preemptions, low.reason) == (
        "pending",
        1,
        "preempted for a claim of higher priority",
    )
    house.allocations.placer.run_cycle()
    assert (house.job("urgent").state, house.job("low").state) == ("starting", "pending")
    assert told(house, "job.preempted") == ["low"]
    assert told(house, "job.requeued") == ["low"]


def test_nobody_of_equal_rank_nor_who_did_not_agree_leaves(house: House) -> None:
    start(house, "equal", priority="high")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    assert stops(house) == {}


def test_one_claim_does_not_ask_a_second_time_nor_for_two(house: House) -> None:
    start(house, "a")
    start(house, "b")
    house.submit(1000, None, name="urgent", priority="high")
    for _ in range(3):
        house.allocations.placer.run_cycle()
    assert len(stops(house)) == 1
    house.allocations.placer.load()
    house.allocations.placer.run_cycle()
    assert len(stops(house)) == 1, "a server that starts anew knows for whom it leaves"


def test_the_seats_are_kept_for_whom_they_were_freed(house: House) -> None:
    start(house, "low", priority="low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    house.submit(1000, None, name="other")
    ended(house, "low")
    house.allocations.placer.run_cycle()
    assert (house.job("urgent").state, house.job("other").state) == ("starting", "pending")


def test_a_preempted_job_keeps_its_launch_and_starts_again_when_there_is_room(house: House) -> None:
    first = start(house, "low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    ended(house, "low")
    house.allocations.placer.run_cycle()
    item = next(one for one in house.work() if one.job_name == "urgent")
    house.report(item, "ended", exit_code=0)
    house.allocations.placer.run_cycle()
    again = next(one for one in house.work() if one.job_name == "low")
    assert (again.job, again.argv, again.env, again.earlier_runs) == (
        first.job,
        ["true"],
        {"SECRET": "x"},
        1,
    )
    assert again.allocation != first.allocation
    assert house.report(first, "ended", exit_code=1) == [], (
        "a late word of the first run changes nothing"
    )
    assert house.job("low").state == "starting"


def test_a_job_that_came_to_its_own_end_before_the_signal_has_ended(house: House) -> None:
    start(house, "low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    ended(house, "low", reason="exited", signal=None, exit_code=0)
    assert house.job("low").state == "done"


def test_who_is_stopped_by_its_user_while_it_leaves_does_not_come_back(house: House) -> None:
    start(house, "low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    house.allocations.jobs.stop_job("low", house.admin, None)
    ended(house, "low")
    assert (house.job("low").state, house.job("low").reason) == ("stopped", "stopped by its user")


def test_members_of_a_gang_that_wait_are_not_asked_to_leave(house: House) -> None:
    role = RoleIn(name="w", count=5, minimum=4)
    house.submit(500, None, name="gang", preemptible=True, gang=GroupIn(name="g", parts=[role]))
    for item in house.work():
        house.report(item, "running", started_ns=5)
    waits = next(f"gang.{n}" for n in range(5) if house.job(f"gang.{n}").state == "pending")
    house.submit(1000, None, name="urgent", priority="high")
    assert len(stops(house)) == 4
    with house.store.read() as connection:
        query = sa.select(jobs.c.stop_requested, jobs.c.leaving_for).where(jobs.c.name == waits)
        assert connection.execute(query).one() == (None, None)


def test_a_gang_leaves_and_waits_as_a_whole(house: House) -> None:
    house.submit(
        500,
        None,
        name="gang",
        preemptible=True,
        gang=GroupIn(name="g", parts=[RoleIn(name="w", count=4)]),
    )
    for item in house.work():
        house.report(item, "running", started_ns=5)
    house.submit(1000, None, name="urgent", priority="high")
    assert stops(house) == {f"gang.{n}": "preempted" for n in range(4)}
    for n in range(4):
        assert house.allocations.cache.count_waiting() == 1
        ended(house, f"gang.{n}")
    house.allocations.placer.run_cycle()
    assert house.job("urgent").state == "starting"
    assert {house.job(f"gang.{n}").state for n in range(4)} == {"pending"}
    assert house.allocations.cache.count_waiting() == 4


def test_a_member_that_fails_for_want_of_those_that_left_waits_with_them(house: House) -> None:
    """Its peers left first, so their connections broke before its own signal came."""
    gang = GroupIn(name="g", parts=[RoleIn(name="w", count=4)])
    house.submit(500, None, name="gang", preemptible=True, gang=gang)
    for item in house.work():
        house.report(item, "running", started_ns=5)
    house.submit(1000, None, name="urgent", priority="high")
    ended(house, "gang.0")
    ended(house, "gang.1", reason="exited", signal=None, exit_code=1)
    ended(house, "gang.2", reason="signalled", signal=6)
    ended(house, "gang.3")
    assert {house.job(f"gang.{n}").state for n in range(4)} == {"pending"}


def test_a_member_given_up_that_fails_as_it_leaves_ends_no_other(house: House) -> None:
    role = RoleIn(name="w", count=4, minimum=2)
    house.submit(500, None, name="gang", preemptible=True, gang=GroupIn(name="g", parts=[role]))
    for item in house.work():
        house.report(item, "running", started_ns=5)
    house.submit(1000, None, name="urgent", priority="high")
    gone = stops(house)
    for name in gone:
        ended(house, name, reason="exited", signal=None, exit_code=1)
    assert stops(house) == {}
    assert {house.job(name).state for name in gone} == {"pending"}


def test_a_gang_gives_up_members_beyond_its_minimum_and_goes_on(house: House) -> None:
    role = RoleIn(name="w", count=4, minimum=2)
    house.submit(500, None, name="gang", preemptible=True, gang=GroupIn(name="g", parts=[role]))
    for item in house.work():
        house.report(item, "running", started_ns=5)
    house.submit(1000, None, name="urgent", priority="high")
    gone = stops(house)
    assert list(gone.values()) == ["shrunk", "shrunk"]
    for name in gone:
        ended(house, name)
        assert house.job(name).reason == "preempted; its gang goes on without it"
    house.allocations.placer.run_cycle()
    states = {name: house.job(name).state for name in (f"gang.{n}" for n in range(4))}
    assert states == {name: "pending" if name in gone else "running" for name in states}
    assert house.job("urgent").state == "starting"
    house.report(
        next(one for one in house.work() if one.job_name == "urgent"),
        "ended",
        reason="exited",
        exit_code=0,
    )
    house.allocations.placer.run_cycle()
    assert {house.job(name).state for name in gone} == {"starting"}, (
        "they join when there is room again"
    )


def test_a_gang_that_gave_up_members_leaves_as_a_whole_when_those_it_needs_have_to(
    house: House,
) -> None:
    role = RoleIn(name="w", count=4, minimum=2)
    house.submit(500, None, name="gang", preemptible=True, gang=GroupIn(name="g", parts=[role]))
    for item in house.work():
        house.report(item, "running", started_ns=5)
    house.submit(1000, None, name="urgent", priority="high")
    gone = stops(house)
    for name in gone:
        ended(house, name)
    house.allocations.placer.run_cycle()
    house.submit(1000, None, name="more", priority="high")
    assert stops(house) == {
        name: "preempted" for name in (f"gang.{n}" for n in range(4)) if name not in gone
    }


def test_the_books_count_each_run_for_its_own_time(house: House) -> None:
    start(house, "low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    ended(house, "low")
    house.allocations.placer.run_cycle()
    with house.store.read() as connection:
        held = connection.execute(
            sa.select(sa.func.count()).where(allocations.c.state != AllocationState.RELEASED)
        ).scalar_one()
        used = connection.execute(sa.select(sa.func.sum(devices.c.used_milli))).scalar_one()
        kept = connection.execute(sa.select(sa.func.count()).select_from(launches)).scalar_one()
        open_intervals = connection.execute(
            sa.select(sa.func.count()).select_from(intervals).where(intervals.c.end_s.is_(None))
        ).scalar_one()
    assert (held, used, kept, open_intervals) == (2, 2000, 3, 2)


def test_a_tenant_loses_no_more_jobs_an_hour_than_its_budget(tmp_path: Path) -> None:
    house = House(tmp_path, rules=PreemptionRules(protected_s=0, per_hour=1))
    start(house, "a")
    start(house, "b")
    house.submit(1000, None, name="first", priority="high")
    ((gone, _),) = stops(house).items()
    house.submit(1000, None, name="second", priority="high")
    assert list(stops(house)) == [gone]
    house.allocations.placer.load()
    house.allocations.placer.run_cycle()
    assert list(stops(house)) == [gone], "also after the server began anew"
    house.close()


def test_a_card_that_fails_sends_its_work_elsewhere_and_others_stay(house: House) -> None:
    low = start(house, "again", preemptible=False, requeue=True)
    start(house, "firm", preemptible=False)
    house.register(1, "node-2")
    for seat in low.seats:
        house.fleet.record_observations("node-1", [_failed(seat.uuid)])
    house.allocations.placer.refresh_cache()
    house.allocations.placer.run_cycle()
    assert stops(house) == {"again": "recovered"}
    ended(house, "again")
    house.allocations.placer.run_cycle()
    assert (house.job("again").state, house.job("again").node) == ("starting", "node-2")
    assert house.job("firm").state == "running"


def _failed(uuid: str) -> DeviceSample:
    return DeviceSample(uuid=uuid, usage=UsageOut(), health="failed", health_reason="XID 79")


def test_a_lost_job_starts_again_where_it_asked_to_and_not_for_ever(house: House) -> None:
    start(house, "again", preemptible=False, requeue=True)
    for run in range(1, 4):
        item = next(one for one in house.work() if one.job_name == "again")
        house.report(item, "running", started_ns=5)
        house.report(item, "lost")
        assert house.job("again").preemptions == run
        house.allocations.placer.run_cycle()
    item = next(one for one in house.work() if one.job_name == "again")
    house.report(item, "lost")
    assert house.job("again").state == "lost"


def test_a_job_s_state_never_names_a_beneficiary_it_has_left(house: House) -> None:
    start(house, "low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    ended(house, "low")
    with house.store.read() as connection:
        row = connection.execute(
            sa.select(jobs.c.leaving_for, jobs.c.stop_requested).where(jobs.c.name == "low")
        ).one()
    assert row == (None, None)


def test_what_each_run_was_measured_to_use_is_added_up(house: House) -> None:
    def end_with(item: WorkOut, milliseconds: int, **how: object) -> None:
        sample = JobSample(
            job=item.job, gpu_milliseconds=milliseconds, cpu_milliseconds=milliseconds
        )
        end = ReportIn(allocation=item.allocation, generation=item.generation, state="ended", **how)  # type: ignore[arg-type]
        house.allocations.agents.apply_reports("node-1", ReportsIn(reports=[end], jobs=[sample]))

    first = start(house, "low")
    start(house, "firm", preemptible=False)
    house.submit(1000, None, name="urgent", priority="high")
    end_with(first, 5000, reason="stopped", signal=15)
    house.allocations.placer.run_cycle()
    house.finish("urgent")
    house.allocations.placer.run_cycle()
    again = next(one for one in house.work() if one.job_name == "low")
    house.report(again, "running", started_ns=5)
    end_with(again, 3000, exit_code=0)
    with house.store.read() as connection:
        used = sa.select(sa.func.sum(delivered.c.gpu_milliseconds)).join(
            jobs, jobs.c.id == delivered.c.job_id
        )
        assert connection.execute(used.where(jobs.c.name == "low")).scalar_one() == 8000


def outranked(house: House) -> None:
    """A claim waits for the seat that `low` leaves, beside one of its priority whose tenant had
    nothing yet."""
    start(house, "low")
    start(house, "firm", preemptible=False)
    house.tenancy.tenants.create(house.admin, "vision", None)
    rival = house.member("eve", "vision", UserRole.TENANT_ADMIN)
    house.submit(1000, None, name="urgent", priority="high")
    house.submit(1000, None, name="rival", priority="high", principal=rival)


def states(house: House) -> dict[str, str]:
    with house.store.read() as connection:
        return {
            row.name: row.state for row in connection.execute(sa.select(jobs.c.name, jobs.c.state))
        }


@pytest.mark.parametrize("restarted", [False, True])
def test_who_stands_lower_in_the_fair_share_does_not_take_what_was_freed(
    house: House, restarted: bool
) -> None:
    outranked(house)
    ended(house, "low")
    if restarted:
        house.restart()
    house.allocations.placer.run_cycle()
    found = states(house)
    assert (found["urgent"], found["rival"]) == ("starting", "pending")


@pytest.mark.parametrize("restarted", [False, True])
def test_what_an_owner_took_back_is_not_borrowed_again_by_a_higher_priority(
    house: House, restarted: bool
) -> None:
    """The borrower waits again, with its higher priority, in the very transaction that frees the
    card."""
    house.tenancy.tenants.create(
        house.admin, "owner", QuotaIn(nominal_milli=2000, borrowing_milli=0)
    )
    house.tenancy.put_quota(house.admin, "default", QuotaIn(nominal_milli=0, borrowing_milli=None))
    owner = house.member("ann", "owner")
    start(house, "b1", priority="high")
    start(house, "b2", priority="high")
    asked = house.submit(1000, None, name="mine", principal=owner)
    assert asked.state == "pending"
    victim = next(iter(stops(house)))
    first = house.allocations.jobs.explain_job(asked.id, owner)
    ended(house, victim)
    if restarted:
        house.restart()
    house.allocations.placer.run_cycle()
    found = states(house)
    assert (found["mine"], found[victim]) == ("starting", "pending")
    assert len(told(house, "job.preempted")) == 1
    assert first.start_ns is not None
    assert not first.start_promised, "an owner of higher priority may take the seats first"


def test_a_claim_that_was_cancelled_is_owed_nothing(house: House) -> None:
    outranked(house)
    ended(house, "low")
    house.allocations.jobs.stop_job("urgent", house.admin, None)
    assert house.allocations.cache.build_snapshot().beneficiaries == ()
    house.allocations.placer.run_cycle()
    assert states(house)["rival"] == "starting"


def test_a_claim_that_sat_and_waits_again_is_owed_nothing_by_those_who_left_before(
    house: House,
) -> None:
    start(house, "low")
    start(house, "firm", preemptible=False)
    urgent = house.submit(1000, None, name="urgent", priority="high", preemptible=True)
    assert house.allocations.cache.build_snapshot().beneficiaries == (urgent.id,)
    ended(house, "low")
    house.allocations.placer.run_cycle()
    again = next(one for one in house.work() if one.job_name == "urgent")
    house.report(again, "not_started", reason="its node could not start it")
    assert house.job("urgent").state == "pending"
    with house.store.read() as connection:
        assert read_eviction_beneficiaries(connection, {urgent.id: (urgent.id,)}) == []
    assert house.allocations.cache.build_snapshot().beneficiaries == ()


def test_one_that_is_stopped_by_its_user_while_it_leaves_still_leaves_for_the_same_claim(
    house: House,
) -> None:
    start(house, "low")
    start(house, "low-2")
    urgent = house.submit(1000, None, name="urgent", priority="high")
    (leaving,) = stops(house)
    house.allocations.jobs.stop_job(leaving, house.admin, None)
    assert [
        one.beneficiary
        for one in house.allocations.cache.build_snapshot().running
        if one.beneficiary
    ] == [urgent.id]
    house.allocations.placer.run_cycle()
    assert list(stops(house)) == [leaving], "nobody else has to leave"
