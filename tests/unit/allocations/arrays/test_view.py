"""Arrays in answers: as a whole, and their members with a row or without."""

from __future__ import annotations

import pytest

from gpupool.allocations.views.job_pages import JobFilter
from gpupool.base.errors import NoPermission, NotFound, NotOneJob, WrongState
from gpupool.model.job import ENDED
from tests.support.house import House


def test_the_name_of_an_array_is_never_its_first_member(house: House) -> None:
    house.submit(1000, None, name="sweep", array=100)
    for ask in (
        house.allocations.jobs.get_job,
        lambda name, who: house.allocations.jobs.record_checkpoint(name, who),
    ):
        with pytest.raises(NotOneJob, match="sweep is an array of 100 jobs, not one job") as caught:
            ask("sweep", house.admin)
        assert "gpupool logs sweep.1" in caught.value.hint
    with pytest.raises(NotOneJob):
        house.allocations.jobs.get_job("last", house.admin)
    shown = house.allocations.jobs.get_array("sweep", house.admin)
    assert (shown.size, shown.first, shown.last) == (100, "sweep.0", "sweep.99")
    assert shown.states == {"starting": 2, "pending": 98}
    assert (
        house.allocations.jobs.get_array("last", house.admin).id
        == house.allocations.jobs.get_array(shown.id, house.admin).id
    )
    told = house.allocations.jobs.explain_job("sweep", house.admin)
    assert told.array is not None
    assert (told.job, told.state, told.array.next) == ("sweep.2", "pending", f"{shown.id}.2")
    assert "free" in told.sentence or told.cards


def test_a_member_is_found_by_name_and_by_reference_before_it_is_a_job_and_after(
    house: House,
) -> None:
    house.submit(1000, None, name="sweep", array=4)
    before = house.job("sweep.3")
    assert (before.state, before.array_index, before.generation) == ("pending", 3, 0)
    assert before.reason
    assert house.job(before.id).name == "sweep.3"
    with pytest.raises(WrongState, match="never started"):
        house.allocations.jobs.record_checkpoint("sweep.3", house.admin)
    for done in ("sweep.0", "sweep.1"):
        house.finish(done)
        house.allocations.placer.run_cycle()
    after = house.job(before.id)
    assert (after.name, after.state) == ("sweep.3", "starting")
    assert after.id != before.id
    with pytest.raises(NotFound):
        house.job("sweep.4")


def test_another_tenants_array_is_not_found(house: House) -> None:
    for name in ("nlp", "vision"):
        house.tenancy.tenants.create(house.admin, name, None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "vision")
    house.submit(1000, None, name="secret", array=10, principal=ann)
    shown = house.allocations.jobs.get_array("secret", ann)
    for name in ("secret", "secret.7", shown.id, f"{shown.id}.7"):
        for action in (
            house.allocations.jobs.get_job,
            house.allocations.jobs.get_array,
            house.allocations.jobs.explain_job,
        ):
            with pytest.raises(NotFound):
                action(name, bob)
        with pytest.raises(NotFound):
            house.allocations.jobs.stop_job(name, bob, None)
    assert house.allocations.jobs.list_jobs(bob, JobFilter(), None, 10).items == []


def test_a_colleague_may_not_stop_an_array_or_one_of_its_waiting_members(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "nlp")
    house.submit(1000, None, name="ours", array=10, principal=ann)
    for name in ("ours", "ours.7"):
        with pytest.raises(NoPermission):
            house.allocations.jobs.stop_job(name, bob, None)
    assert house.allocations.stops.stop_all(bob, "down", None) == 0
    assert house.allocations.stops.stop_all(ann, "down", None) == 10
    assert house.allocations.jobs.get_array("ours", ann).not_made == 8
    assert house.job("ours.7").state in ENDED
