"""A plan costs what has changed since the last one, and not what runs: 10,000 jobs beside 100,
counted.

What is counted is the same on every machine: calls of functions, Python's and C's, and running jobs
looked at. What an array operation does inside is one call. The times are `make bench
ARGS=scheduling`.
"""

import sys
from collections.abc import Callable
from math import log2
from types import FrameType

import pytest

from bench.running_pool import RunningPool
from gpupool.scheduling.workspace.planning_state import PlanningState

FEW, SOME, MANY = 100, 1_000, 10_000


def calls(act: Callable[[], object]) -> int:
    count = 0

    def counted(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def living(size: int) -> RunningPool:
    """A pool whose board has seen two plans, after one more job has ended and another one
    started."""
    pool = RunningPool(size)
    pool.board = PlanningState(pool.snapshot())
    for _ in range(2):
        pool.plan(pool.snapshot())
        pool.turn_over()
    return pool


@pytest.fixture(scope="module")
def costs() -> dict[int, tuple[int, int, int]]:
    """By number of running jobs: calls of a plan, jobs looked at, and cards looked at."""
    found = {}
    for size in (FEW, SOME, MANY):
        pool = living(size)
        before = pool.snapshot()
        effort = pool.plan(before).effort
        pool.turn_over()
        before = pool.snapshot()
        found[size] = (
            calls(lambda pool=pool, before=before: pool.plan(before)),
            effort.jobs,
            effort.rows,
        )
    return found


def test_a_plan_looks_at_the_jobs_that_changed_whatever_else_runs(
    costs: dict[int, tuple[int, int, int]],
) -> None:
    assert {jobs for _, jobs, _ in costs.values()} == {2}


@pytest.mark.parametrize("size", [SOME, MANY])
def test_a_plan_takes_as_many_calls_but_for_the_halving_of_ends(
    costs: dict[int, tuple[int, int, int]], size: int
) -> None:
    """The start that is promised is looked for among the ends of what runs, by halving."""
    assert costs[size][0] <= costs[FEW][0] * log2(size) / log2(FEW) * 1.1


def test_a_plan_from_nothing_looks_at_every_job() -> None:
    pool = RunningPool(FEW)
    assert pool.plan(pool.snapshot()).effort.jobs >= FEW


def test_a_plan_on_a_board_that_lives_on_is_the_one_from_nothing() -> None:
    kept = living(SOME)
    before = kept.snapshot()
    plan = kept.plan(before)
    kept.board = None
    anew = kept.plan(before)
    assert (plan.placements, plan.starts) == (anew.placements, anew.starts)
