"""Turns at the server's threads: given up by a request that only waits, and taken again."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import HTTPConnection

from gpupool.tenancy.turns import (
    IDLE_KEY,
    TURN_KEY,
    IdleMark,
    RequestTurn,
    give_turn_aside,
    wait_idle,
)


def connection(turn: RequestTurn | None) -> HTTPConnection:
    scope = {"type": "http", "headers": []}
    return HTTPConnection(scope if turn is None else {**scope, TURN_KEY: turn})


def test_a_turn_is_given_back_once() -> None:
    async def scene() -> None:
        free = asyncio.Semaphore(1)
        turn = RequestTurn(free)
        assert not turn.give_back(), "it was never taken"
        await turn.take()
        assert free.locked()
        assert [turn.give_back(), turn.give_back()] == [True, False]
        await free.acquire()
        assert free.locked(), "there is one turn, however often it was given back"

    asyncio.run(scene())


def test_a_request_that_waits_lets_another_of_its_user_work() -> None:
    async def scene() -> None:
        free = asyncio.Semaphore(1)
        turn = RequestTurn(free)
        await turn.take()
        async with give_turn_aside(connection(turn)):
            assert not free.locked()
        assert free.locked()
        assert turn.give_back()

    asyncio.run(scene())


def test_a_request_without_a_turn_takes_none_after_its_wait() -> None:
    async def scene() -> None:
        free = asyncio.Semaphore(1)
        async with give_turn_aside(connection(RequestTurn(free))):
            pass
        async with give_turn_aside(connection(None)):
            pass
        assert not free.locked()

    asyncio.run(scene())


def test_a_wait_that_fails_takes_no_turn_any_more() -> None:
    async def scene() -> None:
        free = asyncio.Semaphore(1)
        turn = RequestTurn(free)
        await turn.take()
        with pytest.raises(ZeroDivisionError):
            async with give_turn_aside(connection(turn)):
                raise ZeroDivisionError
        assert not free.locked()

    asyncio.run(scene())


def test_a_request_is_idle_while_it_waits_for_news() -> None:
    async def scene() -> None:
        free = asyncio.Semaphore(1)
        turn = RequestTurn(free)
        await turn.take()
        mark = IdleMark()
        waiting = connection(turn)
        waiting.scope[IDLE_KEY] = mark
        async with wait_idle(waiting):
            assert mark.is_idle
            assert not free.locked()
        assert not mark.is_idle
        assert free.locked()
        with pytest.raises(ZeroDivisionError):
            async with wait_idle(waiting):
                raise ZeroDivisionError
        assert not mark.is_idle

    asyncio.run(scene())
