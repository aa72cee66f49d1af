"""Steps that begin later: they occupy no thread, and none begins in a pool that is closing."""

from __future__ import annotations

import threading
from pathlib import Path

from gpupool.agent.jobs.checkpoint import Checkpoint
from gpupool.agent.jobs.local_allocation import JobPhase, LocalAllocation
from gpupool.agent.jobs.worker_pool import PARALLEL_STARTS, WorkerPool
from tests.support.supervised import until

ALLOCATION = LocalAllocation(
    Checkpoint("a-1", 1, "j-1", "whole", attached=False), Path("/none"), JobPhase.RUNNING
)


def fail(_allocation: LocalAllocation, error: Exception) -> None:
    raise error


def test_many_steps_that_wait_leave_the_threads_to_others() -> None:
    pool = WorkerPool(fail)
    later: list[str] = []
    ran = threading.Event()
    for _ in range(PARALLEL_STARTS * 2):
        pool.submit_after(3600, lambda one: later.append(one.key), ALLOCATION)
    pool.submit(lambda _one: ran.set(), ALLOCATION)
    assert ran.wait(20)
    assert later == []
    pool.close()
    pool.join()
    names = [thread.name for thread in threading.enumerate() if "timer" in thread.name]
    until(lambda: not [one for one in threading.enumerate() if one.name in names], "no timer left")


def test_a_step_begins_after_its_time_under_the_lock_of_its_job() -> None:
    pool = WorkerPool(fail)
    began = threading.Event()
    with ALLOCATION.lock:
        pool.submit_after(0.01, lambda _one: began.set(), ALLOCATION)
        assert not began.wait(0.2)
    assert began.wait(20)
    pool.close()
    pool.join()


def test_no_step_begins_in_a_closed_pool() -> None:
    pool = WorkerPool(fail)
    pool.close()
    pool.submit_after(0, lambda _one: fail(ALLOCATION, AssertionError()), ALLOCATION)
    pool.join()
