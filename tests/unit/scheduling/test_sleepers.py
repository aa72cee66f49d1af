"""Which classes sleep, and the order of their turns: the same whatever queues were followed before."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from unittest import mock

import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.board import Board
from gpupool.scheduling.sleepers import Asleep, Sleepers
from gpupool.scheduling.snapshot import Start, Waiting
from tests.support.gang_builders import gang, role
from tests.support.scheduling_builders import cards, snapshot

POOL = cards("2x2xT4+1x2xH200", used={"node-1/0": (900, 0), "node-2/0": (400, 0), "node-3/1": (1000, 0)})
ROUNDS = 40


def made(chance: Random, number: int) -> Waiting:
    """A claim or a gang, some of which have room; ages are often the same."""
    age = chance.randrange(4)
    tenant, priority = chance.choice(("nlp", "vision")), chance.choice((0, 0, 50))
    shape = Shape(chance.choice((200, 700, WHOLE)), GIB, chance.choice((1, 1, 3)), chance.choice((None, "T4", "H200")))
    if chance.random() < 0.2:
        return replace(gang(f"g{number}", role("worker", shape, 2), tenant=tenant, at=age), priority=priority)
    return Waiting(tenant, priority, shape, (f"j{number}",), 1, age)


def turns(asleep: Asleep) -> list[list[int]]:
    """The first of each lane and who of it has the next turn, each without a promise."""
    found = list[list[int]]()
    for first in sorted(asleep.in_queue()):
        found.append([first])
        while (behind := asleep.after(found[-1][-1], lambda _: True)) is not None:
            found[-1].append(behind)
    return found


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("spare", [0, 100])
def test_sleepers_that_followed_a_life_of_the_queue_are_those_of_a_new_board(few: int, spare: int) -> None:
    chance, waiting, board = Random(few + spare), list[Waiting](), Board(snapshot(POOL))
    with (
        mock.patch("gpupool.scheduling.sleepers._FEW", few),
        mock.patch("gpupool.scheduling.sleepers._SPARE", spare),
    ):
        for number in range(ROUNDS):
            waiting = [one for one in waiting if chance.random() < 0.9]
            waiting += [made(chance, 3 * number + n) for n in range(chance.randrange(4))]
            chance.shuffle(waiting)
            now = snapshot(POOL, *waiting)
            new = Sleepers(board.free, board.roster).of(now)
            living = board.sleepers.of(now)
            assert turns(living) == turns(new)
            assert living.restless() == new.restless()
            assert [living.has_room(i) for i in range(len(waiting))] == [new.has_room(i) for i in range(len(waiting))]
            assert all(board.sleepers.find_gang(one.gang.id) is one for one in waiting if one.gang)


def test_a_class_sleeps_where_no_node_has_room_for_it() -> None:
    one = Waiting("nlp", 0, Shape(WHOLE), ("a",), 1, 0)
    fits, full = replace(one, shape=Shape(WHOLE, model="H200")), replace(one, shape=Shape(500, None, 2, "H200"))
    asleep = Board(snapshot(POOL)).sleepers.of(snapshot(POOL, fits, full))
    assert [asleep.has_room(0), asleep.has_room(1)] == [True, False]


@pytest.mark.parametrize(("members", "room"), [(2, True), (4, False)])
def test_a_gang_sleeps_where_fewer_cards_are_free_than_it_needs(members: int, *, room: bool) -> None:
    one = gang("g", role("worker", Shape(WHOLE, model="T4"), members))
    assert Board(snapshot(POOL)).sleepers.of(snapshot(POOL, one)).has_room(0) is room


def test_classes_with_a_promise_are_found_by_key_and_by_claim_where_they_moved() -> None:
    each = [Waiting("nlp", n, Shape(WHOLE), (f"a{n}", f"b{n}"), 2, n) for n in range(200)]
    promised = {each[7].key: Start(9, claim="a7"), each[150].key._replace(priority=-1): Start(9, claim="b150")}
    before = replace(snapshot(POOL, *each), promised=promised)
    sleepers = Board(before).sleepers
    assert sleepers.promised_at(before, ["a7", "b150"]) == [7, 150]
    few = replace(before, waiting=before.waiting[:9])
    assert sleepers.promised_at(few, ["a7"]) == list(range(9))
