"""What each user does one after the other, however many requests it sends at once. Waits in the loop, in no thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class UserTurns:
    """Of one event loop. Users do not wait for each other."""

    def __init__(self) -> None:
        self._turns: dict[int, asyncio.Lock] = {}
        self._asked: dict[int, int] = {}

    @asynccontextmanager
    async def turn_of(self, user: int) -> AsyncIterator[None]:
        """The turn of a request of that user, in the order of asking."""
        turn = self._turns.setdefault(user, asyncio.Lock())
        self._asked[user] = self._asked.get(user, 0) + 1
        try:
            async with turn:
                yield
        finally:
            self._asked[user] -= 1
            if not self._asked[user]:
                del self._turns[user], self._asked[user]
