"""A gang of pods has all its seats or none, also those of members that do not exist yet."""

from __future__ import annotations

from gpupool.scheduling.engine.cycle import cycle
from tests.support.gang_rounds import holders, member, note, pool_of, write


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
