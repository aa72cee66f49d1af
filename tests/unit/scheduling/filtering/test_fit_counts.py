from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.fit_counts import compute_cheapest_bytes, find_roomy_nodes
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import HostColumns
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.scheduling_builders import cards, shape, snapshot, whole


def test_copies_count_claims_that_fit_side_by_side() -> None:
    pool = cards("1x3xT4+1x4xT4", used={"node-1/0": (600, GIB), "node-2/0": (0, 14 * GIB)})
    board = PlanningState(snapshot(pool))
    assert board.count_fits(shape(300, GIB)).tolist() == [1 + 3 + 3, 1 + 9]
    assert board.count_fits(shape(300, GIB, 2)).tolist() == [3, 5]
    assert board.count_fits(shape(300, GIB, 3)).tolist() == [1, 3]
    assert board.count_fits(whole()).tolist() == [2, 3]
    assert board.count_fits(whole(2)).tolist() == [1, 1]


def test_copies_stop_at_the_processors_of_the_node() -> None:
    hosts = HostColumns(
        *(
            np.array(column, dtype=np.int64)
            for column in ([8000, 8000], [GIB, GIB], [5000, 2000], [GIB, GIB])
        )
    )
    board = PlanningState(snapshot(replace(cards("2x4xT4"), hosts=hosts)))
    assert board.count_fits(replace(whole(), cpu_milli=2000)).tolist() == [2, 1]
    assert board.count_fits(replace(whole(), cpu_milli=100, host_bytes=GIB)).tolist() == [1, 1]
    assert board.count_fits(replace(shape(), count=0, cpu_milli=1000)).tolist() == [5, 2]


def test_nodes_are_roomy_within_the_rest_of_a_memory_quota() -> None:
    free = FreeCapacity(cards("mixed:H200,T4+mixed:T4,T4,H200"))
    fit = ClaimFit(Shape(1000, None, 2), free)
    assert [size // GIB for size in compute_cheapest_bytes(fit, free).tolist()] == [155, 30]
    assert find_roomy_nodes(fit, free, None).tolist() == [True, True]
    assert find_roomy_nodes(fit, free, 100 * GIB).tolist() == [False, True]
    assert find_roomy_nodes(fit, free, 20 * GIB).tolist() == [False, False]
