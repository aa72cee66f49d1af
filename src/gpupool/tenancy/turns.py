"""Turns at the server's threads: how many requests of one user are worked on at the same time.

A request has its turn until its answer begins (`server.middleware.in_flight` gives it); one that
only waits gives it up meanwhile, so that what a user waits for never holds up what else it asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import HTTPConnection

#: Key of the request's scope; the in-flight layer sets it.
TURN_KEY: Final = "gpupool.turn"
#: Key of the request's scope; the server sets it (`server.http.serving`).
IDLE_KEY: Final = "gpupool.idle"


class RequestTurn:
    """The turn of one request. `free` counts the turns that its user has left."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free = free
        self._is_held = False

    async def take(self) -> None:
        """Wait for those of the user that asked before."""
        await self._free.acquire()
        self._is_held = True

    def give_back(self) -> bool:
        """Give the turn back; return whether it was held. Idempotent."""
        was_held = self._is_held
        self._is_held = False
        if was_held:
            self._free.release()
        return was_held


@asynccontextmanager
async def give_turn_aside(connection: HTTPConnection) -> AsyncIterator[None]:
    """Give the turn up while a request waits for something else than a thread.

    Callers without a bound have no turn to give up.
    """
    turn: RequestTurn | None = connection.scope.get(TURN_KEY)
    had = turn is not None and turn.give_back()
    yield
    if turn is not None and had:  # after an error nothing more is worked on
        await turn.take()


class IdleMark:
    """Whether a request only waits for news now."""

    def __init__(self) -> None:
        self.is_idle = False


@asynccontextmanager
async def wait_idle(connection: HTTPConnection) -> AsyncIterator[None]:
    """Give the turn up while a request waits for news; a server that stops cancels it at once."""
    mark: IdleMark = connection.scope.get(IDLE_KEY) or IdleMark()
    mark.is_idle = True
    try:
        async with give_turn_aside(connection):
            yield
    finally:
        mark.is_idle = False
