"""The layout that families need: the most at one time, on as few cards as possible."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.partition import PartitionProfile
from gpupool.rightsizing.layouts import CardMix, count_peaks, plan_cards
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare

SMALL = PartitionProfile("1g.18gb", 1, 17 * GIB, (0, 1, 2, 3, 4, 5, 6), 7, 142)
LARGE = PartitionProfile("3g.71gb", 4, 70 * GIB, (0, 4), 2, 428)


def make_run(start_s: int, end_s: int, cards: int = 1) -> MeasuredRun:
    return MeasuredRun("j", start_s, end_s, RequestedShare(100, GIB, cards))


def test_the_most_partitions_at_one_time_are_counted_by_profile() -> None:
    runs = [
        ("1g.18gb", make_run(0, 10)),
        ("1g.18gb", make_run(5, 20, cards=2)),
        # It begins when the first one ends, so it takes its place.
        ("1g.18gb", make_run(10, 20)),
        ("3g.71gb", make_run(100, 110)),
    ]

    assert count_peaks(runs) == {"1g.18gb": 3, "3g.71gb": 1}


def test_a_demand_takes_as_few_cards_as_it_can() -> None:
    found = plan_cards((SMALL, LARGE), 8, {"1g.18gb": 3, "3g.71gb": 3})

    assert found.cards == 2
    assert found.missing == {}
    assert {mix.cards for mix in found.mixes} == {1}
    assert sum(mix.mix.count("3g.71gb") for mix in found.mixes) in (2, 3)


def test_equal_cards_are_one_mix_and_what_finds_no_card_is_missing() -> None:
    found = plan_cards((SMALL, LARGE), 2, {"3g.71gb": 5})

    assert found.mixes == (CardMix("2 x 3g.71gb", 2),)
    assert found.missing == {"3g.71gb": 1}
