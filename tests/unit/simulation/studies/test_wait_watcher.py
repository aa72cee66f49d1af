"""Waits and held time of a replay, by job and by tenant."""

from __future__ import annotations

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.plan import Eviction
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.studies.tune_changes import ReplaySummary
from gpupool.simulation.studies.wait_watcher import WaitWatcher
from gpupool.simulation.traces.trace import JobArrival
from tests.support.simulation_builders import WHOLE, job, world


def watch(*arrivals: JobArrival, until: int | None = None) -> ReplaySummary:
    watcher = WaitWatcher()
    until_ns = None if until is None else until * NS
    outcome = Replay(world(1), [watcher], until_ns=until_ns).play_arrivals(arrivals)
    return watcher.summarize_replay(outcome.ended_ns, 10 * NS)


def test_watcher_measures_waits_and_the_mean_of_what_is_held() -> None:
    found = watch(job("a", 0, 10), job("b", 4, 5))
    assert found.waits_ns == {"a": 0, "b": 6 * NS}
    assert found.held_milli == {"default": 1500}
    assert (found.unstarted, found.evictions) == (0, 0)


def test_watcher_counts_a_job_that_never_started_until_the_end() -> None:
    found = watch(job("a", 0, 100), job("b", 4, 5), until=50)
    assert found.waits_ns == {"a": 0, "b": 46 * NS}
    assert found.unstarted == 1


def test_watcher_leaves_out_refused_jobs_and_later_members_of_a_gang() -> None:
    gang = JobArrival("g", 0, Shape(500), NS, members=2)
    assert set(watch(gang, job("wide", 0, 1, Shape(1000, count=2))).waits_ns) == {"g.0"}


def test_watcher_keeps_the_first_start_of_an_evicted_job() -> None:
    pool = world(1)
    watcher = WaitWatcher()
    Replay(pool, [watcher], until_ns=4 * NS).play_arrivals([job("a", 0, 10, WHOLE)])
    evicted = pool.running["a"]
    watcher.on_eviction(evicted, Eviction("a", "b", 4, "for b"), 4 * NS)
    found = watcher.summarize_replay(10 * NS, 10 * NS)
    assert (found.evictions, found.waits_ns["a"], found.held_milli["default"]) == (1, 0, 400)
