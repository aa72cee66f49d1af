from __future__ import annotations

from dataclasses import replace
from random import Random
from unittest import mock

import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.workspace.class_columns import (
    FEWEST,
    ClassColumns,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.sleeping_classes import (
    SleepingClasses,
)
from tests.support.gang_builders import gang, role
from tests.support.quota_builders import member
from tests.support.scheduling_builders import snapshot
from tests.support.sleeping_builders import POOL

ROUNDS = 40


def made(chance: Random, number: int) -> WaitingClass:
    """A claim or a gang, some of which have room; ages are often the same."""
    age = chance.randrange(4)
    tenant, priority = chance.choice(("nlp", "vision")), chance.choice((0, 0, 50))
    shape = Shape(
        chance.choice((200, 700, WHOLE)),
        GIB,
        chance.choice((1, 1, 3)),
        chance.choice((None, "T4", "H200")),
    )
    if chance.random() < 0.2:
        return replace(
            gang(f"g{number}", role("worker", shape, 2), tenant=tenant, at=age), priority=priority
        )
    return WaitingClass(tenant, priority, shape, (f"j{number}",), 1, age)


def turns(asleep: SleepingClasses) -> list[list[int]]:
    """The first of each lane and who of it has the next turn, each without a promise."""
    found = list[list[int]]()
    for first in sorted(asleep.iterate_queue()):
        found.append([first])
        while (behind := asleep.find_next_in_lane(found[-1][-1], lambda _: True)) is not None:
            found[-1].append(behind)
    return found


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("spare", [0, 100])
def test_sleepers_that_followed_a_life_of_the_queue_are_those_of_a_new_board(
    few: int, spare: int
) -> None:
    chance, waiting, board = (
        Random(few + spare),
        list[WaitingClass](),
        PlanningState(snapshot(POOL)),
    )
    with (
        mock.patch("gpupool.scheduling.workspace.class_columns._FEW", few),
        mock.patch("gpupool.scheduling.workspace.class_columns._SPARE", spare),
    ):
        for number in range(ROUNDS):
            waiting = [one for one in waiting if chance.random() < 0.9]
            waiting += [made(chance, 3 * number + n) for n in range(chance.randrange(4))]
            chance.shuffle(waiting)
            now = snapshot(POOL, *waiting)
            new = ClassColumns(board.free, board.running_jobs).make_sleeping_classes(now)
            living = board.sleeping_classes.make_sleeping_classes(now)
            assert turns(living) == turns(new)
            assert living.list_awake() == new.list_awake()
            assert [living.has_room(i) for i in range(len(waiting))] == [
                new.has_room(i) for i in range(len(waiting))
            ]
            assert all(
                board.sleeping_classes.find_gang(one.gang.id) is one for one in waiting if one.gang
            )


def test_classes_with_a_promise_are_found_by_key_and_by_claim_where_they_moved() -> None:
    each = [WaitingClass("nlp", n, Shape(WHOLE), (f"a{n}", f"b{n}"), 2, n) for n in range(200)]
    promised = {
        each[7].key: PlannedStart(9, claim="a7"),
        each[150].key._replace(priority=-1): PlannedStart(9, claim="b150"),
    }
    before = replace(snapshot(POOL, *each), previous_starts=promised)
    sleepers = PlanningState(before).sleeping_classes
    assert sleepers.list_promised_classes(before, ["a7", "b150"]) == [7, 150]
    few = replace(before, waiting=before.waiting[:9])
    assert sleepers.list_promised_classes(few, ["a7"]) == list(range(9))


def test_a_plan_follows_a_queue_whose_tenant_has_left_the_pool() -> None:
    """The board numbers tenants for as long as it lives, and quotas are those of each plan."""
    many = tuple(
        WaitingClass("nlp", 0, Shape(WHOLE, GIB + number), (f"j{number}",), 1, number)
        for number in range(2 * FEWEST)
    )
    leaves = WaitingClass("run-1", 0, Shape(WHOLE, GIB), ("last",), 1, 0)
    tenants = {"nlp": member(gpu=(1, 0))}
    both = {**tenants, "run-1": member()}
    board = PlanningState(snapshot(POOL))
    first = replace(snapshot(POOL, *many, leaves), tenants=both)
    then = replace(snapshot(POOL, *many), tenants=tenants)
    assert len(cycle(first, 0, board=board).placements) == 2
    assert cycle(then, 0, board=board) == cycle(then, 0)
