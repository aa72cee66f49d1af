"""Seats of claims that come one after the other, without a queue."""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.seat_chooser import SeatChooser
from gpupool.simulation.replay.world import build_card_table
from tests.support.simulation_builders import HALF, WHOLE, nodes

WIDE = Shape(1000, count=4)


def chooser(policy: str, *cards: int) -> tuple[SeatChooser, FreeCapacity]:
    free = FreeCapacity(
        build_card_table(nodes(*cards)), np.arange(len(cards), dtype=np.int64), compiled=False
    )
    made = SeatChooser(policy, free, (WHOLE, HALF, WIDE), 42)
    made.set_expected(ExpectedDemand((WHOLE, HALF), (1.0, 1.0)))
    return made, free


def test_choose_seat_takes_nothing_until_the_seat_is_taken() -> None:
    seats, free = chooser("binpack", 1, 1)
    before = free.cells.copy()
    seat = seats.choose_seat(0)
    assert seat is not None
    assert (free.cells == before).all()
    seats.take_seat(0, seat)
    assert not (free.cells == before).all()
    seats.release_seat(0, seat)
    assert (free.cells == before).all()


def test_choose_seat_in_a_full_pool_is_none_with_a_reason_for_now() -> None:
    seats, _ = chooser("binpack", 1)
    seat = seats.choose_seat(0)
    assert seat is not None
    seats.take_seat(0, seat)
    assert seats.choose_seat(1) is None
    assert seats.explain_rejection(1).fits_ever


def test_explain_rejection_of_a_claim_beyond_every_node_is_for_ever() -> None:
    seats, _ = chooser("binpack", 2, 3)
    assert seats.choose_seat(2) is None
    assert not seats.explain_rejection(2).fits_ever


def test_policy_packs_or_spreads_the_second_seat() -> None:
    for policy, together in (("binpack", True), ("spread", False)):
        seats, _ = chooser(policy, 2, 2)
        first = seats.choose_seat(1)
        assert first is not None
        seats.take_seat(1, first)
        second = seats.choose_seat(1)
        assert second is not None
        assert (first.node == second.node) is together
        assert seats.compute_score(1, second).score == seats.compute_score(1, second).score
        assert f"n{second.node}" in seats.describe_seat(1, second)
