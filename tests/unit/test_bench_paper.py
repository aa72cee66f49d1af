"""The bench of the paper's table fails when a cell is missing, and judges by the published
deviation."""

from math import sqrt

import pytest

from bench.figures import paper
from bench.figures.paper import SEEDS, Cell, cells
from gpupool.simulation.replay.demand_levels import DemandLevel

PUBLISHED = {("default", "FGD", 130): {"alloc_pct_mean": "95.391", "alloc_pct_std": "0.1"}}
CELL = Cell("default", "fgd", "allocation", 130)


def ours(rate: float, seeds: int = len(SEEDS)) -> paper.Ours:
    return {("fgd", 130): [DemandLevel(130, rate, 4.5, 99.0)] * seeds}


def test_every_policy_has_a_cell_at_both_levels_on_every_list() -> None:
    found = list(cells("cpu200"))
    assert {(cell.policy, cell.arrived) for cell in found} == {
        (p, at) for p in paper.POLICIES for at in (100, 130)
    }
    assert len(list(cells("default"))) == 12 + 23 + 4


def test_ours_may_be_as_far_from_theirs_as_the_seeds_allow() -> None:
    row = paper._row(CELL, ours(95.5), PUBLISHED)
    assert (row.ours, row.peer) == (pytest.approx(95.5), 95.391)
    assert row.limit_apart == pytest.approx(0.3 + 3 * 0.1 * sqrt(0.2))
    assert row.holds
    assert not paper._row(CELL, ours(95.9), PUBLISHED).holds


def test_a_missing_cell_breaks_the_bench() -> None:
    with pytest.raises(
        LookupError, match="no published result: default, fgd, allocation at 130 % arrived"
    ):
        paper._row(CELL, ours(95.5), {})
    with pytest.raises(LookupError, match="no result of ours for 10 seeds"):
        paper._row(CELL, ours(95.5, seeds=9), PUBLISHED)
