"""Moves that bring whole cards together: what they gain, what they cost, and what they leave
alone."""

from __future__ import annotations

import numpy as np
import pytest

from gpupool.scheduling.rebalancing.defragment import DefragmentPlan, plan_defragmentation
from gpupool.scheduling.rebalancing.defragment_cp_sat import make_cp_sat_solver
from gpupool.scheduling.rebalancing.move_limits import RebalancingLimits
from tests.support.moving_builders import NOW, job, pool


def moved(plan: DefragmentPlan) -> dict[str, str]:
    return {move.job: move.node for move in plan.moves}


def test_two_half_used_nodes_become_a_full_one_and_an_empty_one() -> None:
    before = pool("2x4xH200", job("a", 0), job("b", 1), job("c", 4), job("d", 5))
    plan = plan_defragmentation(before, NOW)
    assert set(moved(plan)) in ({"a", "b"}, {"c", "d"})
    assert plan.gain.nodes == (0, 1)
    assert plan.gain.cards == (4, 4)
    assert plan.lost_seconds == 120


def test_the_job_that_loses_least_moves() -> None:
    before = pool("2x2xH200", job("old", 0, ran=9000), job("new", 2, ran=10))
    assert moved(plan_defragmentation(before, NOW)) == {"new": "node-1"}
    before = pool("2x2xH200", job("saved", 0, ran=9000, saved=5), job("new", 2, ran=10))
    assert moved(plan_defragmentation(before, NOW)) == {"saved": "node-2"}


def test_jobs_that_may_not_move_and_gangs_stay() -> None:
    before = pool("2x2xH200", job("fixed", 0, stays=True), job("gang", 2, gang="g"))
    assert plan_defragmentation(before, NOW).moves == ()


def test_shares_are_gathered_on_one_card_so_that_another_comes_free() -> None:
    before = pool("1x2xH200+1x2xH200", job("s1", 0, milli=300), job("s2", 2, milli=300))
    plan = plan_defragmentation(before, NOW)
    assert len(plan.moves) == 1
    assert plan.gain.cards == (2, 3)
    assert plan.gain.nodes == (0, 1)


def test_a_block_smaller_than_a_node_needs_only_so_many_cards() -> None:
    stuck = [job(f"stuck{row}", row, stays=True) for row in (0, 4, 5, 6)]
    before = pool("2x4xH200", *stuck, job("a", 1))
    plan = plan_defragmentation(before, NOW, block=3, wanted=1)
    assert moved(plan) == {"a": "node-2"}
    assert plan.gain.blocks == (0, 1)
    assert plan.gain.nodes == (0, 0)


def test_nothing_moves_where_another_block_would_break_for_it() -> None:
    before = pool("2x2xH200", job("a", 0))
    assert plan_defragmentation(before, NOW).moves == ()


@pytest.mark.parametrize(
    "limits",
    [
        RebalancingLimits(moves=1),
        RebalancingLimits(lost_seconds=100),
        RebalancingLimits(per_tenant=1),
    ],
)
def test_limits_hold(limits: RebalancingLimits) -> None:
    before = pool("2x4xH200", job("a", 0), job("b", 1), job("c", 4), job("d", 5))
    assert plan_defragmentation(before, NOW, limits=limits).moves == ()


def test_every_move_fits_when_it_is_made_and_nobody_moves_twice() -> None:
    random = np.random.default_rng(7)
    jobs = [
        job(
            f"j{row}",
            int(row),
            milli=int(random.choice([200, 500, 1000])),
            ran=int(random.integers(1, 999)),
        )
        for row in random.choice(80, size=45, replace=False)
    ]
    before = pool("10x8xH200", *jobs)
    plan = plan_defragmentation(before, NOW, solver=make_cp_sat_solver(2.0))
    free = before.cards.free_milli.copy()
    running = {one.job: one for one in before.running}
    for move in plan.moves:
        milli = running[move.job].milli[0]
        assert (free[list(move.rows)] >= milli).all()
        free[list(move.rows)] -= milli
        free[list(running[move.job].rows)] += milli
    assert len(moved(plan)) == len(plan.moves)
    assert plan.gain.nodes[1] > plan.gain.nodes[0]


def test_the_same_pool_has_the_same_plan() -> None:
    before = pool("3x4xH200", job("a", 0), job("b", 4), job("c", 8))
    assert plan_defragmentation(before, NOW) == plan_defragmentation(before, NOW)
