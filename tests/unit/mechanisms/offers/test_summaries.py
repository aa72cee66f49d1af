"""What a mechanism says of itself."""

from __future__ import annotations

import pytest

from gpupool.mechanisms.bookkeeping import BookkeepingMechanism
from gpupool.mechanisms.offers.summaries import UNTESTED, summarize_mechanism
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.enforcement import FenceLevel, spread_level


@pytest.mark.parametrize("name", ["whole", "fence", "share"])
def test_a_mechanism_says_how_it_was_tested(name: str) -> None:
    assert summarize_mechanism(MECHANISMS[name]).tested != UNTESTED


def test_a_mechanism_without_a_summary_has_its_one_level() -> None:
    class Plain(BookkeepingMechanism):
        name = "plain"
        tested = "by hand"

        def fence_level(self) -> FenceLevel:
            return FenceLevel.HARD

    found = summarize_mechanism(Plain())
    assert found.levels == spread_level(FenceLevel.HARD)
    assert (found.sizes, found.tested) == (None, "by hand")
