"""How amounts are divided over NUMA nodes, and that what was taken is given back exactly."""

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.numa import NumaNode, NumaPart
from gpupool.scheduling.free import Free
from gpupool.scheduling.numa import Numa
from gpupool.scheduling.numa_nodes import numa_nodes
from tests.support.scheduling_builders import cards


def numa(held: tuple[NumaPart, ...] = ()) -> Numa:
    """Two nodes of four cards and two NUMA nodes, with 16 processors and 64 GiB each node; `held` is of the first."""
    found = Free(cards("2x4xH200", hosts=(16_000, 64 * GIB), numa=2)).numa
    found.add(-division) if (division := found.held(0, held)) is not None else None
    return found


def parts(found: Numa, node: int, rows: list[int], cpu: int, size: int = 0) -> list[tuple[int, int, int]]:
    return [tuple(part) for part in found.parts(found.divide(node, np.array(rows), cpu, size))]


def test_amounts_come_from_the_numa_node_of_the_card() -> None:
    assert parts(numa(), 0, [1], 4000, GIB) == [(0, 4000, GIB)]
    assert parts(numa(), 1, [6], 4000, GIB) == [(1, 4000, GIB)]


def test_cards_on_both_bring_amounts_of_both_by_their_number() -> None:
    assert parts(numa(), 0, [0, 1, 2], 9000) == [(0, 6000, 0), (1, 3000, 0)]


def test_what_the_near_one_lacks_comes_from_the_other() -> None:
    assert parts(numa((NumaPart(0, 6000, 30 * GIB),)), 0, [0], 4000, 4 * GIB) == [
        (0, 2000, 2 * GIB),
        (1, 2000, 2 * GIB),
    ]


def test_nothing_is_divided_where_nothing_is_asked_or_known() -> None:
    assert numa().divide(0, np.array([0]), 0, 0) is None
    unknown = Free(cards("4xH200", hosts=(16_000, GIB)))
    assert unknown.numa.divide(0, np.array([0]), 4000, 0) is None


def test_a_step_that_is_undone_leaves_every_numa_node_as_it_was() -> None:
    free = Free(cards("4xH200", hosts=(16_000, 64 * GIB), numa=2))
    before, rows = free.numa.cpu_milli.copy(), np.array([3])
    mark = free.mark()
    free.take(0, rows, 300, np.array([GIB]), 9000, GIB, numa=free.numa.divide(0, rows, 9000, GIB))
    assert free.numa.cpu_milli.tolist() == [7000, 0]
    free.rollback(mark)
    assert free.numa.cpu_milli.tolist() == before.tolist()


def test_a_numa_node_that_the_host_has_lost_is_passed_over() -> None:
    assert numa().held(0, [NumaPart(7, 1000, GIB)]) is None


def test_what_comes_back_to_a_host_may_be_of_any_numa_node_up_to_its_size() -> None:
    found = numa((NumaPart(0, 6000, 0), NumaPart(1, 1000, 0)))
    more = found.widened(np.array([0]), np.array([3000]), np.array([0]))
    assert more.cpu_milli.tolist() == [3000, 1000]


def test_a_card_of_unknown_numa_node_is_on_the_only_one_and_else_on_none() -> None:
    one, two = (NumaNode(0, (0, 1), GIB),), (NumaNode(0, (0,), GIB), NumaNode(1, (1,), GIB))
    found = numa_nodes([one, two, ()], [(0, None), (1, None), (1, 1), (2, 0)], [()] * 3)
    assert found is not None
    assert found.of_card.tolist() == [0, -1, 2, -1]
