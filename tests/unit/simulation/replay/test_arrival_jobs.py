"""Jobs of a replay: members and roles of a gang belong together."""

from __future__ import annotations

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.simulation.replay.arrival_jobs import build_jobs, group_gangs, share_equal_shapes
from gpupool.simulation.traces.trace import JobArrival
from tests.support.simulation_builders import HALF, WHOLE, job


def test_members_of_an_arrival_are_a_gang_and_roles_of_a_gang_are_one() -> None:
    alone = list(build_jobs([job("a", 0, 1)]))
    assert [(one.id, one.gang) for one in alone] == [("a", None)]
    workers = JobArrival("w", 0, WHOLE, NS, gang="g", members=3, limit_seconds=60)
    server = JobArrival("ps", 0, Shape(500), NS, gang="g", limit_seconds=90)
    jobs = list(build_jobs([workers, server]))
    assert [one.id for one in jobs] == ["w.0", "w.1", "w.2", "ps"]
    assert len({one.key for one in jobs}) == 1
    assert (jobs[0].key.gang, jobs[0].key.seconds) == ("g", 90)
    assert [one.shape for one in jobs] == [WHOLE, WHOLE, WHOLE, Shape(500)]
    assert [one.counts for one in jobs] == [True, False, False, False]
    assert jobs[0].gang is not None
    assert jobs[0].gang.minimum == 4


def test_group_gangs_yields_a_gang_at_the_place_of_its_first_role() -> None:
    first = JobArrival("w", 1, WHOLE, NS, gang="g")
    second = JobArrival("ps", 1, HALF, NS, gang="g")
    before, between = job("a", 0, 1), job("b", 1, 1)
    found = list(group_gangs([before, first, between, second]))
    assert found == [(before,), (first, second), (between,)]


def test_build_jobs_of_a_gang_with_an_unlimited_role_have_no_limit() -> None:
    limited = JobArrival("w", 0, WHOLE, NS, gang="g", limit_seconds=60)
    unlimited = JobArrival("ps", 0, HALF, NS, gang="g")
    assert {one.key.seconds for one in build_jobs([limited, unlimited])} == {None}


def test_share_equal_shapes_gives_equal_shapes_one_object() -> None:
    arrivals = [job("a", 0, 1, Shape(300)), job("b", 0, 1, Shape(300)), job("c", 0, 1, HALF)]
    shared = share_equal_shapes(arrivals)
    assert shared == arrivals
    assert shared[0].shape is shared[1].shape
    assert shared[2].shape is not shared[0].shape
