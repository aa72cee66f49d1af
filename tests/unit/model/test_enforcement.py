"""Levels are ordered, written and read back, and shown in one word."""

from __future__ import annotations

import pytest

from gpupool.model.enforcement import (
    EnforcementLevels,
    FenceLevel,
    read_levels,
    spread_level,
)


def test_levels_are_ordered_from_none_to_hard() -> None:
    words = ["none", "advisory", "soft", "hard"]
    assert [level.value for level in sorted(FenceLevel, key=lambda level: level.rank)] == words


@pytest.mark.parametrize(
    ("memory", "compute", "shown"),
    [("hard", "soft", "soft"), ("none", "hard", "none"), ("hard", "hard", "hard")],
)
def test_the_word_shown_is_the_weaker_of_memory_and_compute(
    memory: str, compute: str, shown: str
) -> None:
    levels = EnforcementLevels(memory=FenceLevel(memory), compute=FenceLevel(compute))
    assert levels.weakest == shown


def test_levels_are_read_back_as_they_were_written() -> None:
    levels = EnforcementLevels(memory=FenceLevel.HARD, fault=FenceLevel.SOFT)
    assert read_levels(levels.write()) == levels


def test_a_dimension_of_a_later_version_is_ignored_and_an_unknown_level_is_not() -> None:
    assert read_levels({"memory": "soft", "energy": "hard"}).memory is FenceLevel.SOFT
    with pytest.raises(ValueError, match="iron"):
        read_levels({"memory": "iron"})


def test_one_word_says_nothing_of_bandwidth_and_faults() -> None:
    levels = spread_level(FenceLevel.SOFT)
    assert levels == EnforcementLevels(memory=FenceLevel.SOFT, compute=FenceLevel.SOFT)
