"""Comparisons take turns, so that what drifts on the machine drifts for both."""

from collections.abc import Callable

from bench.figures.slurm import taking_turns, timed


def teller(said: list[str], word: str, seconds: float) -> Callable[[], float]:
    def act() -> float:
        said.append(word)
        return seconds

    return act


def test_the_one_that_begins_changes_with_every_round() -> None:
    said: list[str] = []
    mine, peers = taking_turns(3, teller(said, "a", 1.0), teller(said, "b", 2.0))
    assert said == ["a", "b", "b", "a", "a", "b"]
    assert (mine, peers) == ((1.0,) * 3, (2.0,) * 3)


def test_without_a_peer_ours_is_still_measured() -> None:
    said: list[str] = []
    assert taking_turns(2, teller(said, "a", 1.0), None) == ((1.0, 1.0), ())


def test_what_comes_between_is_not_in_the_time() -> None:
    said: list[str] = []
    mine, _ = taking_turns(
        2, teller(said, "a", 1.0), teller(said, "b", 2.0), between=lambda: said.append("-")
    )
    assert said == ["a", "-", "b", "-", "b", "-", "a", "-"]
    assert mine == (1.0, 1.0)


def test_an_action_is_timed_as_often_as_asked() -> None:
    said: list[str] = []
    assert timed(lambda: said.append("x"), 3)() >= 0
    assert said == ["x"] * 3
