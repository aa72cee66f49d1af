"""The one form every dialect's words end in."""

from __future__ import annotations

import pytest

from gpupool.dialects.contract import Ask, GangHint, Hints, differing, joined
from gpupool.model.claim import Sharing


@pytest.mark.parametrize(
    ("ask", "sharing"),
    [
        (Ask(gpu_milli=300), Sharing.FIXED),
        (Ask(gpu_milli=300, usual=Sharing.BURST), Sharing.BURST),
        (Ask(gpu_milli=300, usual=Sharing.BURST, sharing=Sharing.FIXED), Sharing.FIXED),
        (Ask(memory_bytes=1 << 30), Sharing.BEST_EFFORT),
        (Ask(memory_bytes=1 << 30, sharing=Sharing.FIXED), Sharing.BEST_EFFORT),
        (Ask(gpu_milli=1000, usual=Sharing.BURST), Sharing.FIXED),
        (Ask(gpu_milli=1000, sharing=Sharing.BEST_EFFORT), Sharing.BEST_EFFORT),
        (Ask(profile="1g.10gb"), Sharing.FIXED),
    ],
)
def test_what_follows_is_filled_in_and_twice_is_once(ask: Ask, sharing: Sharing) -> None:
    done = ask.completed()
    assert done.sharing is sharing
    assert done.completed() == done


def test_the_same_part_of_memory_needs_no_word_and_a_cap_is_a_bursts() -> None:
    assert Ask(gpu_milli=300, memory_milli=300).completed().memory_milli is None
    assert Ask(gpu_milli=300, memory_milli=500).completed().memory_milli == 500
    assert Ask(gpu_milli=300, cap_milli=500, sharing=Sharing.FIXED).completed().cap_milli is None
    assert Ask(gpu_milli=300, cap_milli=500, sharing=Sharing.BURST).completed().cap_milli == 500


def test_a_whole_card_is_nobody_elses() -> None:
    assert Ask(gpu_milli=1000).completed().whole
    assert not Ask(gpu_milli=1000, sharing=Sharing.BEST_EFFORT).whole
    assert not Ask(profile="1g.10gb").whole


def test_words_of_two_are_joined_where_they_do_not_differ() -> None:
    one, other = Hints(queue="a", gang=GangHint("g")), Hints(queue="b", priority="high")
    assert differing(one, other) == ["queue"]
    assert joined(one, Hints(priority="high")) == Hints("a", GangHint("g"), None, "high")
