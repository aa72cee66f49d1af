"""Idle jobs that agreed to it give way to claims that then start, and come back to free room."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.allocations.idle_suspension.policy import REFUSAL_NS
from gpupool.base.errors import RequestRejection
from gpupool.base.units import GIB
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.model.tenant import UserRole
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.jobs import JobOut
from gpupool.wire.samples import JobSample
from tests.support.house import House
from tests.support.ledger_sums import used
from tests.support.resizing import resize, running, work_of

#: Main memory of the node's claims.
OWN = 4 * GIB
TWICE = IdleSuspensionRules(memory_factor_milli=2000)


@pytest.fixture
def house(house: House) -> House:
    house.allocations.idle_suspension.rules = TWICE
    return house


def agree(house: House, name: str, milli: int = 1000, gib: int = 100, **more: Any) -> JobOut:
    """Run a job on a card that agrees to be suspended after a minute."""
    return running(house, name, milli, gib, host_bytes=OWN, idle_seconds=60, **more)


def sample(house: House, name: str, idle_seconds: int | None, gib: int = 50) -> None:
    idle = None if idle_seconds is None else idle_seconds * 1000
    made = JobSample(job=house.job(name).id, idle_milliseconds=idle, gpu_memory_bytes=gib * GIB)
    house.allocations.agents.apply_reports("node-1", ReportsIn(jobs=[made]))


def look(house: House) -> None:
    house.allocations.placer.run_cycle()
    house.allocations.idle_suspension.look()
    house.allocations.placer.run_cycle()


def state_of(house: House, name: str) -> str | None:
    suspension = house.job(name).suspension
    return None if suspension is None else suspension.state


def confirm_suspend(house: House, name: str) -> None:
    house.report(work_of(house, name), "suspended", gpu_memory_bytes=50 * GIB)


def fill(house: House) -> None:
    """Two cards, two jobs that agreed."""
    agree(house, "a")
    agree(house, "b")


def test_the_longest_idle_job_gives_way_and_the_claim_starts(house: House) -> None:
    fill(house)
    sample(house, "a", 61)
    sample(house, "b", 300)
    new = house.submit(1000, 100, name="new")
    look(house)
    assert (state_of(house, "a"), state_of(house, "b")) == (None, "suspending")
    suspension = house.job("b").suspension
    assert suspension is not None
    assert suspension.beneficiary == new.id
    assert work_of(house, "b").only_idle
    # A second look asks for no second victim.
    look(house)
    assert state_of(house, "a") is None
    confirm_suspend(house, "b")
    look(house)
    assert house.job("new").state == "starting"
    assert state_of(house, "b") == "suspended"


def test_a_job_that_works_or_is_not_idle_for_long_enough_is_left_alone(house: House) -> None:
    fill(house)
    sample(house, "a", 59)
    sample(house, "b", None)
    house.submit(1000, 100, name="new")
    look(house)
    assert (state_of(house, "a"), state_of(house, "b")) == (None, None)


def test_a_job_that_has_not_agreed_is_left_alone(house: House) -> None:
    running(house, "a", 1000, 100)
    running(house, "b", 1000, 100)
    sample(house, "a", 900)
    house.submit(1000, 100, name="new")
    look(house)
    assert (state_of(house, "a"), state_of(house, "b")) == (None, None)


def test_it_comes_back_when_the_room_is_free_again(house: House) -> None:
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    confirm_suspend(house, "b")
    # The room belongs to the claim first, whichever thread looks first.
    house.allocations.idle_suspension.look()
    assert state_of(house, "b") == "suspended"
    look(house)
    assert state_of(house, "b") == "suspended"
    house.report(work_of(house, "new"), "running", started_ns=5)
    house.finish("new")
    look(house)
    assert state_of(house, "b") == "resuming"
    assert [card[:2] for card in used(house)] == [(1000, 100 * GIB)] * 2


def test_a_job_that_was_suspended_by_hand_stays_so(house: House) -> None:
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    confirm_suspend(house, "b")
    house.allocations.suspensions.suspend_job("b", house.admin)
    look(house)
    house.report(work_of(house, "new"), "running", started_ns=5)
    house.finish("new")
    look(house)
    assert state_of(house, "b") == "suspended"


def test_the_factor_limits_what_is_lent_twice_and_the_numbers_are_known(house: House) -> None:
    policy = house.allocations.idle_suspension
    policy.rules = IdleSuspensionRules()
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    assert state_of(house, "b") is None
    assert explain(house, "new")[0] == (
        "no idle job is suspended for it: node-1:1 would have 204800 MiB in running and "
        "idle-suspended shares, and the pool's factor 1 allows 143360 MiB (GPUPOOL_SUSPEND_FACTOR)"
    )


def explain(house: House, name: str) -> list[str]:
    return house.allocations.jobs.explain_job(name, house.admin).hints


def test_a_waiting_claim_hears_of_the_jobs_that_would_give_way(house: House) -> None:
    fill(house)
    house.submit(1000, 100, name="new")
    house.allocations.placer.run_cycle()
    assert explain(house, "new")[0] == (
        "would start after 1 job is suspended that agreed to it; 1 of them is not idle for long "
        "enough"
    )
    sample(house, "b", 300)
    assert explain(house, "new")[0] == "starts after 1 idle job is suspended"
    look(house)
    assert explain(house, "new")[0] == "starts after 1 idle job is suspended: under way"
    assert explain(house, "a") == []


def test_a_refused_job_is_left_alone_for_a_while(house: House) -> None:
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    house.report(work_of(house, "b"), "resumed", reason="it works on its cards again")
    sample(house, "b", 300)
    look(house)
    assert state_of(house, "b") == "failed"
    policy = house.allocations.idle_suspension
    policy._refused = {job: since - REFUSAL_NS for job, since in policy._refused.items()}
    look(house)
    assert state_of(house, "b") == "suspending"


def test_main_memory_for_the_cards_is_reserved_from_the_start(house: House) -> None:
    job = agree(house, "a")
    assert job.host_bytes == OWN + 100 * GIB
    assert job.idle_seconds == 60
    with pytest.raises(RequestRejection) as refused:
        resize(house, "a", gib=110)
    assert "main memory is reserved for the 102400 MiB" in refused.value.message
    assert resize(house, "a", gib=90).changed


def test_a_restarted_server_goes_on_with_what_was_suspended(house: House) -> None:
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    house.restart()
    house.allocations.idle_suspension.rules = TWICE
    confirm_suspend(house, "b")
    look(house)
    assert house.job("new").state == "starting"
    house.report(work_of(house, "new"), "running", started_ns=5)
    house.finish("new")
    house.restart()
    look(house)
    assert state_of(house, "b") == "resuming"


def wake(house: House, name: str) -> None:
    house.report(work_of(house, name), "woken")


def give_way(house: House) -> None:
    """Two full cards; `b` is suspended for `new`, which runs."""
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    confirm_suspend(house, "b")
    look(house)
    house.report(work_of(house, "new"), "running", started_ns=5)


def test_a_job_that_wants_to_work_waits_in_its_place_and_says_so(house: House) -> None:
    give_way(house)
    wake(house, "b")
    wake(house, "b")
    look(house)
    suspension = house.job("b").suspension
    assert suspension is not None
    assert suspension.state == "suspended"
    assert suspension.wanted_ns is not None
    said = house.allocations.jobs.explain_job("b", house.admin).sentence
    assert "wants to work since 0:00" in said
    house.finish("new")
    look(house)
    assert state_of(house, "b") == "resuming"
    house.report(work_of(house, "b"), "resumed")
    assert house.job("b").suspension is None


def test_an_idle_job_of_its_card_gives_way_to_one_that_wants_to_work(house: House) -> None:
    agree(house, "a")
    agree(house, "b")
    sample(house, "b", 300)
    # The claim agrees too, so it can give way once it is idle.
    house.submit(1000, 100, name="new", host_bytes=OWN, idle_seconds=60)
    look(house)
    confirm_suspend(house, "b")
    look(house)
    house.report(work_of(house, "new"), "running", started_ns=5)
    wake(house, "b")
    sample(house, "a", 900)
    look(house)
    assert (state_of(house, "a"), state_of(house, "new")) == (None, None)
    sample(house, "new", 61)
    look(house)
    assert state_of(house, "new") == "suspending"
    look(house)
    assert state_of(house, "a") is None
    confirm_suspend(house, "new")
    look(house)
    assert (state_of(house, "b"), state_of(house, "new")) == ("resuming", "suspended")


def test_a_wake_of_an_earlier_suspend_changes_nothing(house: House) -> None:
    give_way(house)
    late = work_of(house, "b")
    house.finish("new")
    look(house)
    house.report(work_of(house, "b"), "resumed")
    house.report(late, "woken")
    assert house.job("b").suspension is None


def test_cards_say_what_is_lent_twice(house: House) -> None:
    assert house.allocations.quotas.describe_capacity().idle == []
    give_way(house)
    wake(house, "b")
    capacity = house.allocations.quotas.describe_capacity()
    assert capacity.suspend_factor == 2
    (room,) = capacity.idle
    assert (room.card, room.jobs, room.wanted) == ("node-1:1", 1, 1)
    assert (room.running_bytes, room.suspended_bytes) == (100 * GIB, 100 * GIB)
    assert room.limit_bytes == 280 * GIB


def test_idle_time_from_before_a_resume_does_not_count(house: House) -> None:
    give_way(house)
    sample(house, "b", 900)
    look(house)
    house.finish("new")
    look(house)
    house.report(work_of(house, "b"), "resumed")
    house.submit(1000, 100, name="next")
    look(house)
    assert state_of(house, "b") is None
    sample(house, "b", 61)
    look(house)
    assert state_of(house, "b") == "suspending"


def test_a_job_of_two_cards_gives_way_and_comes_back_as_a_whole(house: House) -> None:
    job = agree(house, "wide", count=2)
    assert job.host_bytes == OWN + 200 * GIB
    sample(house, "wide", 61)
    house.submit(1000, 100, name="new")
    look(house)
    confirm_suspend(house, "wide")
    look(house)
    assert house.job("new").state == "starting"
    assert sum(card[0] for card in used(house)) == 1000
    rooms = house.allocations.quotas.describe_capacity().idle
    assert [(room.card, room.suspended_bytes) for room in rooms] == [
        ("node-1:0", 100 * GIB),
        ("node-1:1", 100 * GIB),
    ]
    # One of its cards is free, which is not enough.
    look(house)
    assert state_of(house, "wide") == "suspended"
    house.report(work_of(house, "new"), "running", started_ns=5)
    house.finish("new")
    look(house)
    assert state_of(house, "wide") == "resuming"
    assert [card[:2] for card in used(house)] == [(1000, 100 * GIB)] * 2


def test_the_factor_holds_for_claims_that_come_later(house: House) -> None:
    # 210 GiB of each card of 140 GiB.
    house.allocations.idle_suspension.rules = IdleSuspensionRules(memory_factor_milli=1500)
    running(house, "a", 1000, 100)
    agree(house, "b")
    sample(house, "b", 300)
    house.submit(1000, 100, name="new", host_bytes=OWN)
    look(house)
    confirm_suspend(house, "b")
    look(house)
    house.report(work_of(house, "new"), "running", started_ns=5)
    house.finish("new")
    # Before a look brings it back: a claim that needs too much beside its 100 GiB.
    house.submit(1000, 120, name="late")
    house.allocations.placer.run_cycle()
    assert house.job("late").state == "pending"
    assert explain(house, "late")[0] == (
        "would start on node-1:1, which keeps 30720 MiB of the 102400 MiB that idle jobs have there "
        "while they run: with the pool's factor 1.5 running and idle-suspended shares have at most "
        "215040 MiB together (GPUPOOL_SUSPEND_FACTOR)"
    )
    (room,) = house.allocations.quotas.describe_capacity().idle
    assert (room.running_bytes, room.suspended_bytes) == (0, 100 * GIB)
    assert (room.kept_milli, room.kept_bytes) == (0, 30 * GIB)
    house.submit(1000, 110, name="small")
    house.allocations.placer.run_cycle()
    assert (house.job("late").state, house.job("small").state) == ("pending", "starting")


def test_no_claim_takes_the_room_of_a_job_that_wants_to_work(house: House) -> None:
    running(house, "a", 1000, 100)
    agree(house, "b")
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    confirm_suspend(house, "b")
    look(house)
    house.report(work_of(house, "new"), "running", started_ns=5)
    wake(house, "b")
    house.submit(1000, 100, name="third")
    house.finish("new")
    house.allocations.placer.run_cycle()
    assert house.job("third").state == "pending"
    assert explain(house, "third")[0] == (
        "would start on node-1:1, which keeps 1.00 GPU (100 % compute) + 102400 MiB for 1 suspended "
        "job that wants to work again"
    )
    house.restart()
    house.allocations.idle_suspension.rules = TWICE
    look(house)
    assert (state_of(house, "b"), house.job("third").state) == ("resuming", "pending")


def test_a_share_does_not_grow_into_what_is_kept(house: House) -> None:
    agree(house, "a", 500, 50)
    agree(house, "b", 500, 50)
    sample(house, "a", 300)
    running(house, "full", 1000, 100)
    house.submit(500, 50, name="new")
    look(house)
    confirm_suspend(house, "a")
    look(house)
    house.report(work_of(house, "new"), "running", started_ns=5)
    wake(house, "a")
    house.finish("b")
    with pytest.raises(RequestRejection) as refused:
        resize(house, "new", 600, 50)
    assert "0.50 GPU (50 % compute) + 51200 MiB of it are kept" in refused.value.message
    look(house)
    assert state_of(house, "a") == "resuming"


def test_a_suspend_by_hand_ends_what_is_kept(house: House) -> None:
    give_way(house)
    wake(house, "b")
    house.allocations.suspensions.suspend_job("b", house.admin)
    assert house.allocations.cache.build_snapshot().suspended == ()
    house.finish("new")
    house.submit(1000, 100, name="third")
    look(house)
    assert house.job("third").state == "starting"


def test_the_end_of_a_suspended_job_ends_what_is_kept(house: House) -> None:
    give_way(house)
    wake(house, "b")
    assert len(house.allocations.cache.build_snapshot().suspended) == 1
    house.finish("b")
    assert house.allocations.cache.build_snapshot().suspended == ()


def test_a_refused_suspend_leaves_the_job_as_it_was_in_the_plan(house: House) -> None:
    fill(house)
    sample(house, "b", 300)
    house.submit(1000, 100, name="new")
    look(house)
    jobs = {job.job: job for job in house.allocations.cache.build_snapshot().running}
    assert jobs[house.job("b").id].beneficiary == house.job("new").id
    house.report(work_of(house, "b"), "resumed", reason="it works on its cards again")
    jobs = {job.job: job for job in house.allocations.cache.build_snapshot().running}
    assert jobs[house.job("b").id].beneficiary == ""


def test_room_is_kept_for_a_claim_until_its_last_victim_has_left(house: House) -> None:
    fill(house)
    sample(house, "a", 300)
    sample(house, "b", 300)
    house.submit(1000, 100, name="wide", count=2)
    look(house)
    house.tenancy.tenants.create(house.admin, "vision", None)
    rival = house.member("eve", "vision", UserRole.TENANT_ADMIN)
    house.submit(500, 50, name="third", principal=rival)
    confirm_suspend(house, "b")
    house.allocations.placer.run_cycle()
    assert house.job("third").state == "pending"
    confirm_suspend(house, "a")
    house.restart()
    house.allocations.idle_suspension.rules = TWICE
    house.allocations.placer.run_cycle()
    assert (house.job("wide").state, house.job("third").state) == ("starting", "pending")
