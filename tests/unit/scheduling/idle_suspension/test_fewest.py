"""The fewest of an ordered list that suffice."""

from __future__ import annotations

from gpupool.scheduling.idle_suspension.fewest import Suffices, drop_unneeded, find_prefix

WEIGHTS = {"a": 1, "b": 5, "c": 4, "d": 9}


def weighs(least: int) -> Suffices:
    return lambda names: sum(WEIGHTS[name] for name in names) >= least


def test_the_shortest_beginning_that_suffices() -> None:
    assert find_prefix("abcd", weighs(6)) == ["a", "b"]
    assert find_prefix("abcd", weighs(0)) == []
    assert find_prefix("abcd", weighs(20)) is None


def test_what_is_not_needed_is_dropped_from_the_end() -> None:
    assert drop_unneeded("abc", weighs(9)) == ["b", "c"]
    assert drop_unneeded("abc", weighs(5)) == ["b"]
