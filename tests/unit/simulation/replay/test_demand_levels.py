"""Allocation and fragments by arrived demand, of two nodes that are counted by hand."""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.demand_levels import DemandLevel, LevelRecord
from gpupool.simulation.replay.world import build_card_table
from tests.support.simulation_builders import WHOLE, nodes

NOTHING = np.zeros(1, dtype=np.int64)


def capacity(*cards: int) -> FreeCapacity:
    order = np.arange(len(cards), dtype=np.int64)
    return FreeCapacity(build_card_table(nodes(*cards)), order, compiled=False)


def place(record: LevelRecord, free: FreeCapacity, shape: Shape, node: int, row: int) -> None:
    record.record_node_before(node)
    free.take_seats(node, np.array([row]), shape.held_milli, NOTHING, 0, 0)
    record.record_placement(shape, node)


def test_levels_count_a_dropped_claim_as_asked_and_not_as_placed() -> None:
    free = capacity(1, 1)
    record = LevelRecord(free, ExpectedDemand((WHOLE,), (1.0,)), 3)
    place(record, free, WHOLE, 0, 0)
    record.record_drop(WHOLE)
    record.record_drop(Shape(600))
    assert record.compute_levels() == (
        DemandLevel(50, 50.0, 0.0, 0.0),
        DemandLevel(100, 50.0, 0.0, 0.0),
        DemandLevel(130, 50.0, 0.0, 0.0),
    )


def test_levels_count_free_compute_that_the_expected_claims_cannot_use() -> None:
    free = capacity(1, 1)
    record = LevelRecord(free, ExpectedDemand((WHOLE,), (1.0,)), 1)
    place(record, free, Shape(400), 1, 1)
    # 600 of card 1 are of no use to a whole claim: 30 % of all, 37.5 % of what is idle.
    assert record.compute_levels() == (DemandLevel(20, 20.0, 30.0, 37.5),)


def test_levels_of_a_full_pool_have_no_fragment_ratio() -> None:
    free = capacity(1)
    record = LevelRecord(free, ExpectedDemand((WHOLE,), (1.0,)), 1)
    place(record, free, WHOLE, 0, 0)
    assert record.compute_levels() == (DemandLevel(100, 100.0, 0.0, None),)


def test_levels_round_the_arrived_percent_half_up_and_end_at_130() -> None:
    free = capacity(1)
    record = LevelRecord(free, ExpectedDemand((WHOLE,), (1.0,)), 3)
    for milli in (5, 10, 1300):
        record.record_drop(Shape(milli))
    assert [level.arrived_pct for level in record.compute_levels()] == [1, 2]
