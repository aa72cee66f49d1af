"""Limits of a plan of moves, up to the last move that they allow."""

from __future__ import annotations

import pytest

from gpupool.scheduling.rebalancing.move_limits import MoveTally, RebalancingLimits
from gpupool.scheduling.rebalancing.workspace import Move


def move(tenant: str = "nlp", lost: int = 10) -> Move:
    """A move that loses so many seconds on two cards."""
    return Move("j", tenant, "node-1", (0, 1), "node-2", (2, 3), lost, 2 * lost)


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        (RebalancingLimits(), True),
        (RebalancingLimits(moves=2), True),
        (RebalancingLimits(moves=1), False),
        (RebalancingLimits(lost_seconds=15), True),
        (RebalancingLimits(lost_seconds=14), False),
        (RebalancingLimits(lost_gpu_seconds=30), True),
        (RebalancingLimits(lost_gpu_seconds=29), False),
        (RebalancingLimits(per_tenant=2), True),
        (RebalancingLimits(per_tenant=1), False),
    ],
)
def test_a_second_move_counts_beside_the_first(limits: RebalancingLimits, *, allowed: bool) -> None:
    tally = MoveTally(limits)
    tally.add_moves([move()])
    assert tally.is_allowed(["nlp"], 5, 10) is allowed


def test_jobs_that_move_together_count_each_for_their_tenant() -> None:
    tally = MoveTally(RebalancingLimits(per_tenant=1))
    assert tally.is_allowed(["nlp", "web"], 0, 0)
    assert not tally.is_allowed(["nlp", "nlp"], 0, 0)
    tally.add_moves([move("nlp")])
    assert tally.is_allowed(["web"], 0, 0)
    assert (tally.lost_seconds, tally.lost_gpu_seconds, len(tally.moves)) == (10, 20, 1)
