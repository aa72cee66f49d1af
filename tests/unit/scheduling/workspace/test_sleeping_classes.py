"""Which classes sleep, and the order of their turns: the same whatever queues were followed
before."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering.node_counts import RoomyNodeCounts
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.workspace.class_columns import (
    FEWEST,
    ClassColumns,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import gang, role
from tests.support.scheduling_builders import cards, snapshot
from tests.support.sleeping_builders import POOL


def test_a_class_sleeps_where_no_node_has_room_for_it() -> None:
    one = WaitingClass("nlp", 0, Shape(WHOLE), ("a",), 1, 0)
    fits, full = (
        replace(one, shape=Shape(WHOLE, model="H200")),
        replace(one, shape=Shape(500, None, 2, "H200")),
    )
    asleep = PlanningState(snapshot(POOL)).sleeping_classes.make_sleeping_classes(
        snapshot(POOL, fits, full)
    )
    assert [asleep.has_room(0), asleep.has_room(1)] == [True, False]


@pytest.mark.parametrize(("members", "room"), [(2, True), (4, False)])
def test_a_gang_sleeps_where_fewer_cards_are_free_than_it_needs(
    members: int, *, room: bool
) -> None:
    one = gang("g", role("worker", Shape(WHOLE, model="T4"), members))
    assert (
        PlanningState(snapshot(POOL))
        .sleeping_classes.make_sleeping_classes(snapshot(POOL, one))
        .has_room(0)
        is room
    )


def test_a_plan_that_places_every_claim_looks_once_for_who_has_room() -> None:
    claims = [WaitingClass("nlp", 0, Shape(100 + n, GIB), (f"j{n}",), 1, n) for n in range(FEWEST)]
    pool = snapshot(cards("16x1xH200"), *claims)
    board = PlanningState(pool)
    with mock.patch.object(
        RoomyNodeCounts,
        "estimate_most_claims",
        autospec=True,
        side_effect=RoomyNodeCounts.estimate_most_claims,
    ) as looked:
        plan = cycle(pool, 0, board=board)
    assert len(plan.placements) == FEWEST
    assert looked.call_count == 1


def test_who_has_room_is_looked_at_again_once_a_turn_fails() -> None:
    board = PlanningState(
        pool := snapshot(POOL, WaitingClass("nlp", 0, Shape(WHOLE, GIB), ("j0",), 1, 0))
    )
    asleep, shown = (
        ClassColumns(board.free, board.running_jobs).make_sleeping_classes(pool),
        mock.Mock(),
    )
    asleep.note_taken(shown)
    assert asleep.has_room(0)
    shown.assert_not_called()
    asleep.note_failed()
    assert asleep.has_room(0)
    shown.assert_called_once_with()
