"""Routes of the event log: a page names its log, and a stream ends with its caller's rights."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi import Response

from gpupool.allocations.routes import events
from gpupool.allocations.routes.events import EPOCH_HEADER, list_events, watch
from gpupool.base.errors import EventsReset, NotLoggedIn
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import RECHECK_KEY
from tests.support.house import House
from tests.support.route_requests import make_request


class Rechecks:
    """The caller as it is at each piece of a stream: after so many, its token has ended."""

    def __init__(self, caller: Principal, alive: int) -> None:
        self._caller = caller
        self._alive = alive

    async def __call__(self) -> Principal:
        self._alive -= 1
        if self._alive < 0:
            raise NotLoggedIn("the token was revoked", hint="")
        return self._caller


async def read_stream(house: House, alive: int, after: int = 0) -> list[str]:
    caller = house.admin
    scope = {RECHECK_KEY: Rechecks(caller, alive)}
    request = make_request(house, **scope)
    answer = await watch(request, house.allocations, caller, after)
    assert answer.headers[EPOCH_HEADER] == house.allocations.events.read_event_epoch()
    return [str(piece) async for piece in answer.body_iterator]


def test_a_page_of_events_names_the_log_that_it_is_of(house: House) -> None:
    response = Response()
    found = list_events(response, house.allocations, house.admin, 0, 2, None)
    assert [event.seq for event in found] == [1, 2]
    assert response.headers[EPOCH_HEADER] == house.allocations.events.read_event_epoch()


def test_a_stream_gives_each_event_once_and_ends_with_the_token(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.0)
    house.submit(name="a")
    piece, heartbeat = asyncio.run(read_stream(house, alive=1))
    assert heartbeat == "\n"
    lines = [json.loads(line) for line in piece.splitlines()]
    last = house.allocations.events.read_events(house.admin, 0, 1000)[-1].seq
    assert [line["seq"] for line in lines] == list(range(1, last + 1))
    assert asyncio.run(read_stream(house, alive=0)) == []


def test_a_stream_from_a_position_of_another_log_is_refused(house: House) -> None:
    request = make_request(house)
    with pytest.raises(EventsReset):
        asyncio.run(watch(request, house.allocations, house.admin, 10**6))
