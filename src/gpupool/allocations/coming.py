"""What is refused while a pool comes up: its cards may be unknown still, so it is judged again once they are known.

A new pool answers before its agent has told of the cards. Must not know how a pool comes up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.answering import until
from gpupool.base.errors import (
    GangTooLarge,
    GpupoolError,
    GuaranteedToOthers,
    LargerThanAnyCard,
    QuotaExceeded,
    TooManyCards,
    Unavailable,
    UnknownModel,
    UnknownProfile,
)

T = TypeVar("T")

#: Seconds; a tenth is usual, and a client gives an answer up after 60.
COMING_SECONDS: Final = 20.0
#: The topic that is published once the host is ready.
READY: Final = ("pool", "ready")
_BY_CARDS: Final[tuple[type[GpupoolError], ...]] = (
    GangTooLarge,
    GuaranteedToOthers,
    LargerThanAnyCard,
    QuotaExceeded,
    TooManyCards,
    UnknownModel,
    UnknownProfile,
)


async def judged(request: Request, judge: Callable[[], T]) -> T:
    """What `judge` answers, in a thread. Refused for want of cards by a pool that comes up, it is asked once more.

    `judge` must leave nothing where it refuses. Raises Unavailable where the cards stay unknown.
    """
    is_ready: Callable[[], bool] = request.app.state.config.ready
    was_ready = is_ready()
    try:
        return await run_in_threadpool(judge)
    except _BY_CARDS:
        if was_ready:
            raise
    if not await until(request, READY, COMING_SECONDS, is_ready, bool):
        raise Unavailable(
            f"the pool has come up, but its agent has told of no card for {COMING_SECONDS:g} s; nothing was done",
            hint="try again; gpupool doctor  says what the agent does",
        )
    return await run_in_threadpool(judge)
