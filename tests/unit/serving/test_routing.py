"""Requests under way, and the replica that gets the next one."""

from __future__ import annotations

import asyncio

import pytest

from gpupool.serving.routing import ReplicaRoute, RequestLoad, RouteBook, ServiceRoute
from gpupool.serving.traffic import ServiceLabels

ROUTE = ServiceRoute(
    1,
    "v-0123456789",
    "web",
    7,
    ServiceLabels("acme", "web"),
    60,
    tuple(ReplicaRoute(n, f"j-{n}", "a", 8000 + n) for n in (1, 2)),
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_mean_is_over_the_window_and_unknown_at_first() -> None:
    clock = Clock()
    load = RequestLoad(clock)
    load.begin(1)
    assert load.read_mean(1) is None
    clock.now += 2
    assert load.read_mean(1) == pytest.approx(1)
    load.begin(1)
    clock.now += 2
    assert load.read_mean(1) == pytest.approx(1.5)
    load.end(1)
    load.end(1)
    for _ in range(12):
        clock.now += 1
        mean = load.read_mean(1)
    assert mean == pytest.approx(0)
    assert load.count(1) == 0


def test_the_replica_with_the_fewest_requests_is_chosen_in_turn() -> None:
    load = RequestLoad(Clock())
    book = RouteBook()
    first = [book.choose(ROUTE, load) for _ in range(4)]
    assert [one.number for one in first if one] == [2, 1, 2, 1]
    load.begin_replica(1, 1)
    numbers = {one.number for _ in range(3) if (one := book.choose(ROUTE, load))}
    assert numbers == {2}
    assert book.choose(ROUTE, load, {1, 2}) is None
    load.end_replica(1, 1)
    assert load.count_replica(1, 1) == 0


def test_a_service_is_found_in_its_tenant_alone() -> None:
    book = RouteBook()
    book.publish([ROUTE])
    assert book.find(7, "web", sees_all=False) is ROUTE
    assert book.find(8, "web", sees_all=False) is None
    assert book.find(8, "web", sees_all=True) is None
    assert book.find(8, "v-0123456789", sees_all=False) is None
    assert book.find(8, "v-0123456789", sees_all=True) is ROUTE


def test_news_wake_those_that_wait() -> None:
    async def wait() -> ServiceRoute | None:
        book = RouteBook()
        waiting = asyncio.ensure_future(book.wait_news(30))
        await asyncio.sleep(0)
        book.publish([ROUTE])
        await waiting
        await book.wait_news(0)
        return book.find(7, "web", sees_all=False)

    assert asyncio.run(wait()) is ROUTE
