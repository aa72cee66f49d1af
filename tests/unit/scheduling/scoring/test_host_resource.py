"""The host resource that a node value counts: what is asked, there and free of it."""

from __future__ import annotations

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.host_resource import MAIN_MEMORY, PROCESSORS
from tests.support.scheduling_builders import cards

POOL = cards("2x1xT4", hosts=(8000, 64 * GIB))


def test_each_resource_reads_its_own_amounts() -> None:
    shape = Shape(500, 0, 2, cpu_milli=3000, host_bytes=5 * GIB)
    assert (PROCESSORS.get_asked(shape), MAIN_MEMORY.get_asked(shape)) == (3000, 5 * GIB)
    capacity = PROCESSORS.get_capacity(POOL), MAIN_MEMORY.get_capacity(POOL)
    assert [None if one is None else one.tolist() for one in capacity] == [
        [8000, 8000],
        [64 * GIB, 64 * GIB],
    ]


def test_capacity_of_unknown_hosts_is_none() -> None:
    unknown = cards("1x1xT4")
    assert PROCESSORS.get_capacity(unknown) is None
    assert MAIN_MEMORY.get_capacity(unknown) is None


def test_free_amounts_are_the_columns_that_change_in_place() -> None:
    free = FreeCapacity(POOL)
    processors, memory = PROCESSORS.get_free(free), MAIN_MEMORY.get_free(free)
    free.take_seats(1, free.get_node_rows(1), 100, np.array([0]), 1500, GIB)
    assert processors.tolist() == [8000, 6500]
    assert memory.tolist() == [64 * GIB, 63 * GIB]
