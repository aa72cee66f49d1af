"""Routes that wait: until a value is the wanted one, the time is over, or the client is gone."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect

from gpupool.allocations.routes.dependencies import read_until, wait_while_connected
from tests.support.house import House
from tests.support.route_requests import make_request

TOPIC = ("job", "j-1")
LONG = 30.0


def test_read_until_returns_what_is_there_when_the_time_is_over(house: House) -> None:
    request = make_request(house)
    found = asyncio.run(read_until(request, TOPIC, 0, lambda: 7, lambda _value: False))
    assert found == 7


def test_read_until_misses_no_commit_between_reading_and_waiting(house: House) -> None:
    values = [1, 2, 3]

    def read() -> int:
        # A commit just after the value was read, from the thread that reads.
        house.store.notifier.publish_topics([TOPIC])
        return values.pop(0)

    request = make_request(house)
    assert asyncio.run(read_until(request, TOPIC, LONG, read, lambda value: value == 3)) == 3
    assert values == []


def test_read_until_reads_again_only_for_its_own_topic(house: House) -> None:
    read = list[int]()

    def note() -> int:
        house.store.notifier.publish_topics([("job", "j-2")])
        read.append(1)
        return 0

    request = make_request(house)
    asyncio.run(read_until(request, TOPIC, 0.01, note, lambda _value: False))
    assert len(read) == 1


def test_an_answer_is_given_to_a_client_that_stays(house: House) -> None:
    async def answer() -> str:
        return "done"

    # The body of the request is no disconnect.
    request = make_request(house, [{"type": "http.request"}])
    assert asyncio.run(wait_while_connected(request, answer())) == "done"


def test_a_wait_ends_with_the_client_that_disconnects(house: House) -> None:
    cancelled = list[bool]()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def scene() -> None:
        request = make_request(house, [{"type": "http.request"}, {"type": "http.disconnect"}])
        with pytest.raises(ClientDisconnect):
            await wait_while_connected(request, wait())
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scene(), LONG))
    assert cancelled == [True]
