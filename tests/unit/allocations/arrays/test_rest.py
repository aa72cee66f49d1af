"""The rest of an array: one entry of the queue that yields its members in order."""

from __future__ import annotations

import pytest

from gpupool.allocations.arrays.references import parse_reference
from gpupool.allocations.arrays.rest import ArrayRest
from tests.support.array_rows import listed
from tests.support.house import House

ARRAY = "y-4k9x2m7q8w"


def test_the_rest_of_an_array_is_one_line_and_its_last_member_is_itself(house: House) -> None:
    house.submit(1000, None, name="sweep", array=5)
    rest, *made = listed(house)
    assert (rest.name, rest.jobs, rest.state, rest.array) == ("sweep.[2-4]", 3, "pending", "sweep")
    assert [(job.name, job.jobs) for job in made] == [("sweep.1", 1), ("sweep.0", 1)]
    assert [job.name for job in listed(house, states=frozenset({"starting"}))] == [
        "sweep.1",
        "sweep.0",
    ]
    assert [job.name for job in listed(house, states=frozenset({"pending"}), name="sweep")] == [
        "sweep.[2-4]"
    ]
    for done in ("sweep.0", "sweep.1"):
        house.finish(done)
        house.allocations.placer.run_cycle()
    assert [job.name for job in listed(house, live=True)] == ["sweep.4", "sweep.3", "sweep.2"]
    last = listed(house, live=True)[0]
    assert (last.state, parse_reference(last.id) is not None) == ("pending", True)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_restarted_server_goes_on_where_the_array_stood(house: House, restarted: bool) -> None:
    house.submit(1000, None, name="sweep", array=6)
    house.allocations.jobs.stop_job("sweep.4", house.admin, None)
    house.submit(1000, None, name="later")
    if restarted:
        house.restart()
    assert house.allocations.cache.count_waiting() == 4
    turns = house.allocations.quotas.list_queue(house.admin, 10)
    assert [turn.job for turn in turns] == ["sweep.2", "sweep.3", "sweep.5", "later"]
    assert [turn.user for turn in turns] == [house.admin.user] * 4


def test_a_member_that_waits_again_goes_before_the_rest(house: House) -> None:
    house.submit(1000, None, name="sweep", array=9, requeue=True)
    (first, _) = house.work()
    house.report(first, "not_started")
    assert [turn.job for turn in house.allocations.quotas.list_queue(house.admin, 2)] == [
        first.job_name,
        "sweep.2",
    ]
    house.restart()
    assert [turn.job for turn in house.allocations.quotas.list_queue(house.admin, 2)] == [
        first.job_name,
        "sweep.2",
    ]


def test_a_rest_whose_members_are_taken_out_of_turn_steps_over_them() -> None:
    rest = ArrayRest(ARRAY, size=5, following=1)
    assert [rest.take_index(index) for index in (3, 3, 0, 5)] == [True, False, False, False]
    assert (rest.count, rest.count_before(4), rest.has_index(3)) == (3, 2, False)
    assert list(rest.list_members()) == [f"{ARRAY}.{index}" for index in (1, 2, 4)]
    assert rest.take_index(1)
    assert rest.take_index(2)
    assert (rest.following, rest.ahead, rest.count) == (4, set(), 1)
