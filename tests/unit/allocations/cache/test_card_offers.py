"""Published offers are read when they are asked for, and each kind once."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.allocations.cache.card_offers import PublishedOffers
from gpupool.model.isolation.mechanism_offer import write_offers
from tests.support.offered_nodes import NODES

FIRST = NODES[0].offers
SECOND = NODES[1].offers


def row(facts: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(facts=facts)


def published(*facts: dict[str, Any]) -> PublishedOffers:
    return PublishedOffers([row(one) for one in facts])


def test_cards_that_are_alike_share_one_object() -> None:
    first = {"mechanisms": write_offers(FIRST)}
    again = {"mechanisms": write_offers(FIRST)}
    offers = published(first, {}, again, {"mechanisms": write_offers(SECOND)})
    assert list(offers) == [0, 2, 3]
    assert len(offers) == 3
    assert offers[0] == FIRST
    assert offers[0] is offers[2]
    assert offers[3] == SECOND
    with pytest.raises(KeyError):
        offers[1]


def test_offers_are_compared_by_what_was_published() -> None:
    first = {"mechanisms": write_offers(FIRST)}
    assert published(first, {}) == published(first)
    assert published(first) != published({}, first)
    assert published(first) != published({"mechanisms": write_offers(SECOND)})


def test_offers_are_pickled_as_a_plain_dict_that_shares_objects() -> None:
    first = {"mechanisms": write_offers(FIRST)}
    sent = pickle.loads(pickle.dumps(published(first, dict(first))))
    assert type(sent) is dict
    assert sent == {0: FIRST, 1: FIRST}
    assert sent[0] is sent[1]
