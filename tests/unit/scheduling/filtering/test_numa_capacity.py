"""How amounts are divided over NUMA nodes, and that what was taken is given back exactly."""

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.numa import NumaPart
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.numa_capacity import NumaCapacity
from tests.support.scheduling_builders import cards


def numa(held: tuple[NumaPart, ...] = ()) -> NumaCapacity:
    """Two nodes of four cards and two NUMA nodes, with 16 processors and 64 GiB each node; `held`
    is of the first."""
    found = FreeCapacity(cards("2x4xH200", hosts=(16_000, 64 * GIB), numa=2)).numa
    found.add_amounts(-division) if (division := found.read_parts(0, held)) is not None else None
    return found


def parts(
    found: NumaCapacity, node: int, rows: list[int], cpu: int, size: int = 0
) -> list[tuple[int, int, int]]:
    return [
        tuple(part)
        for part in found.list_parts(found.divide_amounts(node, np.array(rows), cpu, size))
    ]


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
    assert numa().divide_amounts(0, np.array([0]), 0, 0) is None
    unknown = FreeCapacity(cards("4xH200", hosts=(16_000, GIB)))
    assert unknown.numa.divide_amounts(0, np.array([0]), 4000, 0) is None


def test_a_step_that_is_undone_leaves_every_numa_node_as_it_was() -> None:
    free = FreeCapacity(cards("4xH200", hosts=(16_000, 64 * GIB), numa=2))
    before, rows = free.numa.cpu_milli.copy(), np.array([3])
    mark = free.begin_trial()
    free.take_seats(
        0, rows, 300, np.array([GIB]), 9000, GIB, numa=free.numa.divide_amounts(0, rows, 9000, GIB)
    )
    assert free.numa.cpu_milli.tolist() == [7000, 0]
    free.rollback_trial(mark)
    assert free.numa.cpu_milli.tolist() == before.tolist()


def test_a_numa_node_that_the_host_has_lost_is_passed_over() -> None:
    assert numa().read_parts(0, [NumaPart(7, 1000, GIB)]) is None


def test_what_comes_back_to_a_host_may_be_of_any_numa_node_up_to_its_size() -> None:
    found = numa((NumaPart(0, 6000, 0), NumaPart(1, 1000, 0)))
    more = found.estimate_released(np.array([0]), np.array([3000]), np.array([0]))
    assert more.cpu_milli.tolist() == [3000, 1000]
