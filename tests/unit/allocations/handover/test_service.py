"""What a user owns goes to another user, and the books say until when it was whose."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption, HandoverRefused, NoPermission, NotFound
from gpupool.model.tenant import UserRole
from gpupool.wire.chains.schedules import ScheduleIn
from gpupool.wire.people import UserPatch
from gpupool.wire.reservations import ReservationIn
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from tests.unit.allocations.handover.conftest import HandoverHouse

SHAPE = ShapeIn(gpu_milli=500, memory_bytes=1 << 30)


def run(house: HandoverHouse, name: str, **more: Any) -> str:
    made = house.submit(1000, 8, name=name, principal=house.ann, **more)
    house.allocations.placer.run_cycle()
    item = next(item for item in house.work() if item.job == made.id)
    assert house.report(item, "running") == []
    return made.id


def test_a_running_job_counts_for_its_new_owner_from_the_second_of_the_handover(
    house: HandoverHouse,
) -> None:
    job = run(house, "train")
    house.pass_hours(1)
    done = house.hand_over()
    assert [(unit.kind, unit.name, unit.refusal) for unit in done.units] == [("job", "train", None)]
    assert (done.handed, done.jobs, house.job(job).user) == (1, 1, "bob")
    house.pass_hours(2)
    assert house.gpu_seconds() == {"ann": 3600.0, "bob": 7200.0}
    (told,) = house.list_events("job.handed-over")
    assert told == {"what": "job", "name": "train", "from": "ann", "to": "bob", "by": "root"}
    assert len(house.list_acts("handover: job")) == 1
    # Again there is nothing of it left.
    assert house.hand_over().units == []
    assert len(house.list_acts("handover: job")) == 1


def test_waiting_jobs_and_the_rest_of_an_array_leave_the_queue_of_their_owner(
    house: HandoverHouse,
) -> None:
    run(house, "one")
    run(house, "two")
    house.submit(1000, 8, name="three", principal=house.ann)
    house.submit(1000, 8, name="sweep", array=5, principal=house.ann)
    cache = house.allocations.cache
    assert cache.count_entries("nlp", house.ann.user_id) == 3
    done = house.hand_over(only=["three", "sweep"])
    assert (done.handed, done.jobs) == (2, 6)
    house.allocations.placer.refresh_cache()
    assert cache.count_entries("nlp", house.ann.user_id) == 0
    assert cache.count_entries("nlp", house.bob.user_id) == 3
    assert [house.job(name).user for name in ("one", "three", "sweep.0")] == ["ann", "bob", "bob"]
    house.finish("one")
    house.allocations.placer.run_cycle()
    assert house.job("three").state == "starting"


@pytest.mark.nightly
def test_schedules_and_reservations_go_with_the_jobs(house: HandoverHouse) -> None:
    body = ScheduleIn(
        name="nightly", cron="0 2 * * *", job=JobIn(shape=SHAPE, launch=LaunchIn(argv=["true"]))
    )
    house.allocations.schedules.add(body, house.ann, None)
    start_ns = house.store.clock.now_ns() + 10**12
    held = ReservationIn(name="desk", shape=SHAPE, start_ns=start_ns, end_ns=start_ns + 10**12)
    house.allocations.reservations.create_reservation(held, house.ann)
    house.tenancy.users.change(house.admin, "ann", UserPatch(disabled=True))
    house.pass_hours(25)
    house.allocations.schedules.runner.look()
    assert house.allocations.schedules.get("nightly", house.admin).state == "paused"
    plan = house.hand_over(dry_run=True)
    assert [(unit.kind, unit.name) for unit in plan.units] == [("schedule", "nightly")]
    assert house.allocations.schedules.get("nightly", house.admin).user == "ann"
    assert house.hand_over().handed == 1
    found = house.allocations.schedules.get("nightly", house.admin)
    assert (found.user, found.state) == ("bob", "active")


@pytest.mark.nightly
def test_a_reservation_that_is_not_over_goes_to_the_heir(house: HandoverHouse) -> None:
    start_ns = house.store.clock.now_ns() + 10**12
    held = ReservationIn(name="desk", shape=SHAPE, start_ns=start_ns, end_ns=start_ns + 10**12)
    house.allocations.reservations.create_reservation(held, house.ann)
    assert [unit.kind for unit in house.hand_over().units] == ["reservation"]
    (kept,) = house.allocations.reservations.list_reservations(house.admin, everything=True)
    assert kept.user == "bob"


@pytest.mark.nightly
def test_a_spent_budget_of_the_heir_keeps_a_job_with_its_owner(house: HandoverHouse) -> None:
    job = run(house, "train")
    house.submit(1000, 8, name="own", principal=house.bob)
    house.set_budget(hours=1, user="bob")
    house.allocations.placer.run_cycle()
    house.pass_hours(1)
    (unit,) = house.hand_over().units
    assert unit.refusal is not None
    assert "budget" in unit.refusal
    assert house.job(job).user == "ann"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"disabled": True}, "is disabled"),
        ({"role": "viewer"}, "may not run jobs"),
        ({"tenant": "vision"}, "belongs to the tenant vision"),
    ],
)
@pytest.mark.sampled(3)
def test_a_user_that_cannot_own_jobs_is_refused(
    house: HandoverHouse, change: dict[str, Any], message: str
) -> None:
    house.tenancy.tenants.create(house.admin, "vision", None)
    house.tenancy.users.change(house.admin, "bob", UserPatch.model_validate(change))
    with pytest.raises(HandoverRefused, match=message):
        house.hand_over()


def test_strangers_and_colleagues_hand_nothing_over(house: HandoverHouse) -> None:
    run(house, "train")
    house.tenancy.tenants.create(house.admin, "vision", None)
    stranger = house.member("eve", "vision", UserRole.TENANT_ADMIN)
    with pytest.raises(NotFound, match="'ann'"):
        house.hand_over(stranger)
    with pytest.raises(NoPermission):
        house.hand_over(house.bob)
    with pytest.raises(NotFound, match="'nobody'"):
        house.hand_over(to="nobody")
    with pytest.raises(BadOption, match="already"):
        house.hand_over(to="ann")
    with pytest.raises(NotFound, match="owns no other"):
        house.hand_over(only=["train", "other"])
