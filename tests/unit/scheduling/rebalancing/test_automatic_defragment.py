"""Defragmentation by itself: only at quiet times, only within the budget, and no job over and
over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.scheduling.rebalancing.automatic_defragment import (
    DefragmentBudget,
    DefragmentSpending,
    is_quiet_time,
    plan_automatic_defragmentation,
)
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.moving_builders import NOW, job, pool
from tests.support.scheduling_builders import waiting

HOURS_AGO = 3 * 3600
SECOND = 10**9
ALWAYS = DefragmentBudget(lost_gpu_seconds=10**6)


def scattered() -> Snapshot:
    """Three nodes of four cards, two jobs of one card each on two of them, which started three
    hours ago."""
    return pool(
        "3x4xH200",
        *(job(f"j{row}", row, ran=HOURS_AGO, saved=60 * (row + 1)) for row in (0, 1, 4, 5)),
    )


def planned(
    snapshot: Snapshot,
    budget: DefragmentBudget = ALWAYS,
    spent: DefragmentSpending | None = None,
    now_ns: int = NOW,
) -> list[str]:
    plan = plan_automatic_defragmentation(snapshot, now_ns, budget, spent or DefragmentSpending())
    return sorted(move.job for move in plan.moves) if plan else []


def test_a_quiet_pool_brings_a_whole_node_together_at_the_least_loss() -> None:
    assert planned(scattered()) == ["j0", "j1"]


def test_the_plan_says_how_much_compute_time_it_loses() -> None:
    plan = plan_automatic_defragmentation(scattered(), NOW, ALWAYS, DefragmentSpending())
    assert plan is not None
    assert plan.lost_gpu_seconds == plan.lost_seconds == 60 + 120
    shares = pool(
        "2x1xH200", *(job(f"s{row}", row, milli=250, ran=HOURS_AGO, saved=400) for row in (0, 1))
    )
    halves = plan_automatic_defragmentation(shares, NOW, ALWAYS, DefragmentSpending())
    assert halves is not None
    assert (halves.lost_seconds, halves.lost_gpu_seconds) == (400, 100)


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (replace(ALWAYS, moves=1), DefragmentSpending()),
        (ALWAYS, DefragmentSpending(moves=9)),
        (ALWAYS, DefragmentSpending(moves=10)),
        (replace(ALWAYS, lost_gpu_seconds=179), DefragmentSpending()),
        (replace(ALWAYS, lost_gpu_seconds=1000), DefragmentSpending(lost_gpu_seconds=821)),
        (replace(ALWAYS, lost_gpu_seconds=1000), DefragmentSpending(lost_gpu_seconds=2000)),
    ],
)
def test_what_the_budget_does_not_allow_is_left(
    budget: DefragmentBudget, spent: DefragmentSpending
) -> None:
    assert planned(scattered(), budget, spent) == []


def test_what_it_just_allows_is_moved() -> None:
    exact = DefragmentBudget(moves=10, lost_gpu_seconds=1000)
    assert planned(scattered(), exact, DefragmentSpending(moves=8, lost_gpu_seconds=820)) == [
        "j0",
        "j1",
    ]


def test_nothing_moves_while_something_waits() -> None:
    assert planned(replace(scattered(), waiting=(waiting("w"),))) == []


def test_nothing_moves_soon_after_a_start() -> None:
    before = scattered()
    late = replace(before.running[0], started_ns=NOW - 599 * SECOND)
    assert planned(replace(before, running=(late, *before.running[1:]))) == []


def test_a_job_that_started_within_the_hour_stays_and_holds_its_node() -> None:
    before = scattered()
    late = replace(before.running[0], started_ns=NOW - 3599 * SECOND)
    assert planned(replace(before, running=(late, *before.running[1:]))) == ["j4", "j5"]


def test_nothing_moves_while_a_job_is_moving_or_leaving() -> None:
    before = scattered()
    leaving = replace(before.running[0], beneficiary="somebody")
    assert planned(replace(before, running=(leaving, *before.running[1:]))) == []
    assert planned(replace(before, beneficiaries=("somebody",))) == []


def test_jobs_that_may_not_be_moved_stay() -> None:
    fixed = [replace(one, preemptible=False) for one in scattered().running]
    assert planned(replace(scattered(), running=tuple(fixed))) == []


@pytest.mark.parametrize(
    ("hours", "hour", "quiet"),
    [
        (None, 12, True),
        ((22, 6), 23, True),
        ((22, 6), 5, True),
        ((22, 6), 6, False),
        ((22, 6), 12, False),
        ((1, 5), 1, True),
        ((1, 5), 5, False),
    ],
)
def test_it_keeps_to_its_hours(hours: tuple[int, int] | None, hour: int, quiet: bool) -> None:
    now_ns = (NOW // (86400 * SECOND) + 1) * 86400 * SECOND + hour * 3600 * SECOND
    assert is_quiet_time(scattered(), now_ns, DefragmentBudget(hours=hours)) is quiet
