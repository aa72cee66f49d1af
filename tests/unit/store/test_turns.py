"""The writer's turn goes to whoever asked first, and is never lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpupool.store.turns import TurnQueue

PATIENCE = 30.0


def waiting(turns: TurnQueue, act: Callable[[], object]) -> threading.Thread:
    """A thread that waits for the turn, having asked for it when this returns."""
    before = len(turns._waiting)

    def wait() -> None:
        assert turns.take(PATIENCE)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    while len(turns._waiting) == before:
        assert thread.is_alive()
    return thread


def test_the_turn_goes_to_those_who_wait_in_their_order() -> None:
    turns, had = TurnQueue(), list[int]()
    assert turns.take(0)

    def act(number: int) -> None:
        had.append(number)
        turns.give()

    threads = [waiting(turns, lambda number=number: act(number)) for number in range(20)]  # type: ignore[misc]
    turns.give()
    assert all(thread.join(PATIENCE) is None for thread in threads)
    assert had == list(range(20))


def test_who_gives_its_turn_and_asks_again_comes_after_those_who_wait() -> None:
    turns, had = TurnQueue(), list[str]()
    assert turns.take(0)
    other = waiting(turns, lambda: (had.append("other"), turns.give()))
    turns.give()
    assert turns.take(PATIENCE)
    had.append("again")
    other.join(PATIENCE)
    assert had == ["other", "again"]


def test_who_gives_up_is_passed_over() -> None:
    turns = TurnQueue()
    assert turns.take(0)
    assert not turns.take(0.001)
    turns.give()
    assert turns.take(0)


def test_a_turn_that_comes_at_the_moment_of_giving_up_is_not_lost() -> None:
    turns = TurnQueue()
    for _ in range(200):
        assert turns.take(PATIENCE)
        giver = threading.Thread(target=turns.give)
        giver.start()
        had = turns.take(0.0001)
        giver.join(PATIENCE)
        if had:
            turns.give()
        assert turns.take(0), "the turn is nobody's"
        turns.give()
