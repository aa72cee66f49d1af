"""Several requests at once, but not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

IN_FLIGHT = 8
"""More only lengthens the API server's queue (measured on two cores; 4 to 8 is best)."""


async def together(steps: Iterable[Awaitable[Any]]) -> list[Any]:
    """All of them, a few at a time; the first error is raised after the others have ended."""
    turn = asyncio.Semaphore(IN_FLIGHT)

    async def one(step: Awaitable[Any]) -> Any:
        async with turn:
            return await step

    done = await asyncio.gather(*(one(step) for step in steps), return_exceptions=True)
    for found in done:
        if isinstance(found, BaseException):
            raise found
    return list(done)
