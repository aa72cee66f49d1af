"""Runs the requests of each user one after another, waiting in the event loop, not in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class UserQueue:
    """One queue per user, on one event loop. Users do not wait for each other."""

    def __init__(self) -> None:
        self._turns: dict[int, asyncio.Lock] = {}
        #: Requests that run or wait, by user; a user without any is forgotten.
        self._counts: dict[int, int] = {}

    @asynccontextmanager
    async def wait_turn(self, user: int) -> AsyncIterator[None]:
        """Wait for the user's turn, in the order of requests, and hold it while the block runs."""
        turn = self._turns.setdefault(user, asyncio.Lock())
        self._counts[user] = self._counts.get(user, 0) + 1
        try:
            async with turn:
                yield
        finally:
            self._counts[user] -= 1
            if not self._counts[user]:
                del self._turns[user], self._counts[user]
