"""What a mechanism says of itself."""

from __future__ import annotations

from gpupool.mechanisms.bookkeeping import BookkeepingMechanism
from gpupool.mechanisms.offers.summaries import UNTESTED, summarize_mechanism
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.enforcement import FenceLevel, spread_level


def test_every_mechanism_of_the_registry_says_how_it_was_tested() -> None:
    for mechanism in MECHANISMS.values():
        assert summarize_mechanism(mechanism).tested != UNTESTED, mechanism.name


def test_a_mechanism_without_a_summary_has_its_one_level() -> None:
    class Plain(BookkeepingMechanism):
        name = "plain"
        tested = "by hand"

        def fence_level(self) -> FenceLevel:
            return FenceLevel.HARD

    found = summarize_mechanism(Plain())
    assert found.levels == spread_level(FenceLevel.HARD)
    assert (found.sizes, found.tested) == (None, "by hand")
