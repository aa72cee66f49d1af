"""The state of a simulated pool: what a snapshot names, and what a placement takes and gives back."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.snapshot.plan import JobPlacement, Seat
from gpupool.simulation.replay.arrival_jobs import build_jobs
from gpupool.simulation.replay.world import HEADS, SimulatedJob, build_card_table
from gpupool.simulation.traces.trace import JobArrival, TraceNode
from tests.support.simulation_builders import HALF, WHOLE, job, nodes, world


def build(*arrivals: JobArrival) -> list[SimulatedJob]:
    return [one for arrival in arrivals for one in build_jobs([arrival])]


def test_card_table_with_a_node_of_unknown_processors_has_no_host_columns() -> None:
    known = TraceNode("a", (("T4", GIB),), 8000, 64 * GIB)
    unknown = TraceNode("b", (("T4", GIB),), 8000, None)
    assert build_card_table([known, unknown]).hosts is None
    hosts = build_card_table([known]).hosts
    assert hosts is not None
    assert hosts.free_memory_bytes.tolist() == [64 * GIB]


def test_card_table_numbers_models_in_the_order_they_come() -> None:
    found = build_card_table([*nodes(1), TraceNode("t", (("T4", GIB), ("H200", GIB)))])
    assert found.models == ("H200", "T4")
    assert found.model.tolist() == [0, 1, 0]
    assert found.uuids == ("n0:0", "t:0", "t:1")


def test_snapshot_names_the_first_jobs_of_a_class_and_counts_all() -> None:
    pool = world(1)
    pool.enqueue_jobs(build(*(job(f"j{n}", 0, 1) for n in range(HEADS + 6))))
    (waiting,) = pool.take_snapshot(0).waiting
    assert (len(waiting.job_ids), waiting.count) == (HEADS, HEADS + 6)
    assert pool.waiting_count == HEADS + 6


def test_snapshot_names_every_member_of_a_gang() -> None:
    pool = world(1)
    pool.enqueue_jobs(build(JobArrival("g", 0, WHOLE, 1, members=HEADS + 6)))
    (waiting,) = pool.take_snapshot(0).waiting
    assert len(waiting.job_ids) == HEADS + 6


def test_enqueue_of_an_evicted_job_goes_before_the_others_of_its_class() -> None:
    pool = world(1)
    pool.enqueue_jobs(build(job("a", 0, 1), job("b", 0, 1), job("half", 0, 1, HALF)))
    pool.enqueue_jobs(build(job("again", 0, 1)), again=True)
    found = {one.job_ids for one in pool.take_snapshot(0).waiting}
    assert found == {("again", "a", "b"), ("half",)}


def test_place_job_takes_what_release_job_gives_back() -> None:
    pool = world(2)
    pool.enqueue_jobs(build(job("a", 0, 1, HALF)))
    before = pool.take_snapshot(0)
    placed = pool.place_job(
        JobPlacement("a", "n0", (Seat("n0:1", 500, 70 * GIB),), (1,), "first"), 5
    )
    assert placed.run is not None
    assert pool.cards.free_milli.tolist() == [1000, 500]
    assert pool.tenants["default"].held == ResourceAmount(500, 70 * GIB)
    assert pool.waiting_count == 0
    released = pool.release_job("a", 9)
    assert released.run is None
    assert pool.cards.free_milli.tolist() == before.cards.free_milli.tolist()
    assert pool.cards.free_bytes.tolist() == before.cards.free_bytes.tolist()
    assert pool.tenants["default"].held == ResourceAmount()
    # A planning state finds cards that changed by their generation.
    assert pool.cards.generation.tolist() == [1, 3]


def test_snapshot_is_not_changed_by_what_happens_later() -> None:
    pool = world(1)
    pool.enqueue_jobs(build(job("a", 0, 1)))
    taken = pool.take_snapshot(0)
    pool.place_job(JobPlacement("a", "n0", (Seat("n0:0", 1000, GIB),), (1,), "first"), 0)
    assert taken.cards.free_milli.tolist() == [1000]
    assert taken.cards.generation.tolist() == [1]
