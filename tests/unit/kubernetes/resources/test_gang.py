"""A gang of pods has all its seats or none, also those of members that do not exist yet."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.resources.gang import assign_kept_seats
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from gpupool.scheduling.engine.cycle import cycle
from tests.support.gang_rounds import holders, member, note, pool_of, write
from tests.support.kube_builders import asking, gang, pod


def test_a_gang_that_does_not_fit_has_nothing_and_says_so() -> None:
    pool = pool_of(1)
    note(pool, member("w0", 6))
    assert write(pool) == 0
    assert holders(pool) == []
    (rejection,) = cycle(pool.take_snapshot(), 0).rejections.values()
    assert "6" in rejection.sentence


def test_a_minimum_starts_with_what_there_is_room_for() -> None:
    pool = pool_of(1)
    note(pool, member("w0", 6, 3))
    assert write(pool) == 4


def test_a_released_member_keeps_its_cards_when_the_rest_is_given_up() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 2))
    write(pool)
    released = member("w0", 2)
    released["spec"]["schedulingGates"] = []
    note(pool, released)
    write(pool, frozenset({"default/train"}))
    assert holders(pool) == ["uid-w0"]


@pytest.mark.parametrize(
    ("hints", "ask", "taken"),
    [
        ({}, {}, True),
        ({"needs": {"isolation": "hard"}}, {}, False),
        ({}, {"sharing": "burst"}, False),
        ({}, {"sharing": "burst", "names_sharing": False}, True),
    ],
    ids=["equal", "isolation", "sharing", "sharing of its node"],
)
def test_member_takes_only_a_seat_of_the_isolation_and_sharing_that_it_names(
    hints: dict[str, Any], ask: dict[str, Any], taken: bool
) -> None:
    """A seat keeps both from the member that it was made by, and the node's agent goes by them."""
    seat = Entry("gang/default/train/0", "default", "", "main", (Seat("c", 300, 8 * GIB),), "t")
    waiting = read_pod(pod("w1", {"main": asking(**ask)}, gang=gang(2), **hints))
    found = assign_kept_seats([seat], [waiting], lambda *_: True)
    assert found == ({seat.uid: waiting} if taken else {})
