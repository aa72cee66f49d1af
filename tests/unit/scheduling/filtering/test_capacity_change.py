"""Changes of free capacity, and the change that undoes each."""

from __future__ import annotations

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.capacity_change import (
    CapacityChange,
    build_slot_changes,
    invert_change,
)
from gpupool.scheduling.filtering.numa_capacity import NumaDivision

SLOT = PartitionSlot(0, 1, "1g.18gb")


def test_an_inverted_change_negates_amounts_and_flips_slots() -> None:
    division = NumaDivision(np.array([1]), np.array([2000]), np.array([GIB]))
    step = CapacityChange(
        0, np.array([0, 1]), -300, np.array([-5, -7]), -2000, -GIB, ((0, SLOT, True),), division
    )
    undo = invert_change(step)
    assert (undo.node, undo.rows.tolist()) == (0, [0, 1])
    assert (undo.milli, undo.cpu_milli, undo.host_bytes) == (300, 2000, GIB)
    assert undo.sizes.tolist() == [5, 7]
    assert undo.slots == ((0, SLOT, False),)
    assert undo.numa is not None
    assert (undo.numa.cpu_milli.tolist(), undo.numa.host_bytes.tolist()) == ([-2000], [-GIB])


def test_an_inverted_change_without_slots_and_numa_has_none() -> None:
    undo = invert_change(CapacityChange(0, np.array([0]), 100, 5, 0, 0))
    assert (undo.slots, undo.numa) == ((), None)


def test_slot_changes_pair_each_row_with_its_place() -> None:
    other = PartitionSlot(4, 1, "1g.18gb")
    rows = np.array([3, 8])
    assert build_slot_changes(rows, (SLOT, other), taken=True) == (
        (3, SLOT, True),
        (8, other, True),
    )
    assert build_slot_changes(rows, (), taken=True) == ()
