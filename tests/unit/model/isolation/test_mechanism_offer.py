"""Offers of a card as they are published."""

from __future__ import annotations

import json

from gpupool.model.enforcement import EnforcementLevels, FenceLevel
from gpupool.model.isolation.mechanism_offer import (
    NO_OFFERS,
    list_missing_levels,
    read_offers,
    strengthen_levels,
    write_offers,
)
from tests.support.offered_nodes import NODES


def test_offers_of_every_node_are_read_as_they_were_written() -> None:
    for card in NODES:
        sent = json.loads(json.dumps(write_offers(card.offers)))
        assert read_offers(sent) == card.offers


def test_a_card_without_offers_has_none_and_unknown_keys_are_ignored() -> None:
    assert read_offers(None) is NO_OFFERS
    sent = write_offers(NODES[0].offers)
    sent["mechanisms"][0]["colour"] = "blue"
    assert read_offers({**sent, "more": 1}) == NODES[0].offers


def test_the_stronger_level_of_each_dimension_wins() -> None:
    fence = EnforcementLevels(FenceLevel.SOFT, FenceLevel.SOFT)
    layer = EnforcementLevels(FenceLevel.HARD, FenceLevel.ADVISORY)
    both = strengthen_levels(fence, layer)
    assert both == EnforcementLevels(FenceLevel.HARD, FenceLevel.SOFT)
    assert list_missing_levels(both, EnforcementLevels(FenceLevel.HARD, FenceLevel.HARD)) == [
        "compute"
    ]
