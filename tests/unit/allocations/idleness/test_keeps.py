"""Keeps of idle jobs: how long, how often, and whose."""

from __future__ import annotations

import pytest

from gpupool.base.errors import KeepsSpent, KeepTooLong, NoIdleRule, NoPermission, WrongState
from tests.support.idle_house import IdleHouse
from tests.support.ledger_sums import used


def test_a_keep_gives_the_share_back_and_holds_the_ladder(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    kept = house.allocations.idleness.keep_job(house.admin, "job", None)
    assert (kept.state, kept.keeps_left) == ("kept", 1)
    house.watch.look()
    assert used(house)[0][0] == 500
    house.idle_until("job", 119, 179)
    assert house.list_kinds() == ["warned", "shrunk", "kept", "returned"]
    house.idle_until("job", 1, 180)
    assert house.list_kinds()[-1] == "warned"
    house.idle_until("job", 10, 190)
    assert house.list_kinds()[-1] == "shrunk"


def test_a_third_keep_in_a_day_is_refused_until_the_first_is_a_day_old(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    idleness = house.allocations.idleness
    idleness.keep_job(house.admin, "job", 60)
    house.pass_minutes(60)
    idleness.keep_job(house.admin, "job", 60)
    with pytest.raises(KeepsSpent, match="kept 2 times in 24 hours, and 2 are allowed"):
        idleness.keep_job(house.admin, "job", 60)
    house.pass_minutes(23 * 60)
    assert idleness.keep_job(house.admin, "job", 60).keeps_left == 0


def test_a_keep_longer_than_allowed_is_refused_with_both_times(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    with pytest.raises(KeepTooLong, match="3h is longer than the 2h"):
        house.allocations.idleness.keep_job(house.admin, "job", 3 * 3600)


def test_a_policy_without_keeps_says_so(house: IdleHouse) -> None:
    house.set_policy(keeps_per_day=0)
    house.run_job()
    with pytest.raises(KeepsSpent, match="allows no keep"):
        house.allocations.idleness.keep_job(house.admin, "job", 60)


def test_a_job_without_a_policy_needs_no_keep(house: IdleHouse) -> None:
    house.run_job()
    with pytest.raises(NoIdleRule):
        house.allocations.idleness.keep_job(house.admin, "job", 60)


def test_a_job_of_a_colleague_is_not_kept_and_one_that_waits_neither(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job("anns", principal=house.ann)
    bob = house.member("bob", "nlp")
    with pytest.raises(NoPermission):
        house.allocations.idleness.keep_job(bob, "anns", 60)
    house.submit(1000, 8, name="one")
    house.submit(1000, 8, name="two")
    with pytest.raises(WrongState):
        house.allocations.idleness.keep_job(house.admin, "two", 60)


def test_one_job_is_asked_about_without_a_refusal_once_it_has_ended(house: IdleHouse) -> None:
    house.run_job()
    house.run_job("other")
    service = house.allocations.idleness
    ids = {one.name: one.job for one in service.list_jobs(house.admin, idle_alone=False)}
    (found,) = service.list_jobs(house.admin, idle_alone=False, job=ids["job"])
    assert found.name == "job"
    assert service.list_jobs(house.admin, idle_alone=False, job="j-0000000000") == []
