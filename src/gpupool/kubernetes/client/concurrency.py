"""Runs several requests at once, up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

#: Requests at once. More only lengthens the API server's queue (measured on two cores; 4 to 8 is
#: best).
IN_FLIGHT = 8


async def gather_limited(steps: Iterable[Awaitable[Any]]) -> list[Any]:
    """Await all steps, a few at a time, and return their results in order.

    Raises:
        BaseException: the first error of a step, after all others have ended.
    """
    turn = asyncio.Semaphore(IN_FLIGHT)

    async def await_turn(step: Awaitable[Any]) -> Any:
        async with turn:
            return await step

    # Every step ends before an error is raised: callers compare what was written with what was not.
    done = await asyncio.gather(*map(await_turn, steps), return_exceptions=True)
    for found in done:
        if isinstance(found, BaseException):
            raise found
    return list(done)
