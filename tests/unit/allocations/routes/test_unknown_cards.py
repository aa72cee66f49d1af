"""A refusal by a pool that comes up is judged again once its cards are known."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from fastapi import Request

from gpupool.allocations.routes import unknown_cards
from gpupool.allocations.routes.unknown_cards import READY, judge_with_cards
from gpupool.base.errors import NameTaken, ServiceUnavailable, TooManyCards
from tests.support.house import House
from tests.support.route_requests import make_request


class ComingPool:
    """A pool that is ready from the reading of that number on, and what it judges."""

    def __init__(self, house: House, ready_at: int) -> None:
        self._house = house
        self._ready_at = ready_at
        self.readings = 0
        self.judgements = 0

    def is_ready(self) -> bool:
        self.readings += 1
        # As the host publishes that it is ready, after whoever asks has read that it is not.
        self._house.store.notifier.publish_topics([READY])
        return self.readings >= self._ready_at

    def judge(self) -> str:
        self.judgements += 1
        if self.readings < self._ready_at or self._ready_at == 1:
            raise TooManyCards("2 cards, the pool has 0", hint="")
        return "accepted"

    def make_request(self) -> Request:
        request = make_request(self._house)
        request.app.state.config = SimpleNamespace(ready=self.is_ready)
        return request


def test_a_refusal_is_judged_again_when_the_cards_are_known(house: House) -> None:
    pool = ComingPool(house, ready_at=4)
    assert asyncio.run(judge_with_cards(pool.make_request(), pool.judge)) == "accepted"
    assert (pool.judgements, pool.readings) == (2, 4)


def test_a_refusal_by_a_pool_that_knows_its_cards_stands(house: House) -> None:
    pool = ComingPool(house, ready_at=1)
    with pytest.raises(TooManyCards):
        asyncio.run(judge_with_cards(pool.make_request(), pool.judge))
    assert pool.judgements == 1


def test_a_refusal_that_no_card_would_change_is_not_held_up(house: House) -> None:
    def refuse() -> None:
        raise NameTaken("a job named a is running already", hint="")

    pool = ComingPool(house, ready_at=10**6)
    with pytest.raises(NameTaken):
        asyncio.run(judge_with_cards(pool.make_request(), refuse))
    assert pool.readings == 1


def test_cards_that_stay_unknown_are_said_with_the_seconds(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_cards, "COMING_SECONDS", 0.0)
    pool = ComingPool(house, ready_at=10**6)
    with pytest.raises(ServiceUnavailable, match="told of no card for 0 s; nothing was done"):
        asyncio.run(judge_with_cards(pool.make_request(), pool.judge))
    assert pool.judgements == 1
