"""Judges a request again once the cards are known, if a pool that comes up has refused it.

A new pool answers before its agent has reported the cards. This module must not know how a pool
comes up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.routes.dependencies import read_until
from gpupool.base.errors import (
    BeyondQuota,
    GangTooLarge,
    GpupoolError,
    GuaranteedToOthers,
    IsolationNotOffered,
    LargerThanAnyCard,
    ServiceUnavailable,
    TooManyCards,
    UnknownModel,
    UnknownProfile,
)

T = TypeVar("T")

#: Seconds to wait for the cards: a tenth is usual, and a client gives an answer up after 60.
COMING_SECONDS: Final = 20.0
#: The topic that is published once the host is ready.
READY: Final = ("pool", "ready")
#: The refusals that may be due to cards which are not known yet.
_BY_CARDS: Final[tuple[type[GpupoolError], ...]] = (
    GangTooLarge,
    GuaranteedToOthers,
    IsolationNotOffered,
    LargerThanAnyCard,
    BeyondQuota,
    TooManyCards,
    UnknownModel,
    UnknownProfile,
)


async def judge_with_cards(request: Request, judge: Callable[[], T]) -> T:
    """Return what `judge` answers, in a thread; judge again if the cards were not known.

    Args:
        request: The request.
        judge: Must write nothing where it refuses.

    Raises:
        ServiceUnavailable: The cards stay unknown.
    """
    is_ready: Callable[[], bool] = request.app.state.config.ready
    was_ready = is_ready()
    try:
        return await run_in_threadpool(judge)
    except _BY_CARDS:
        if was_ready:
            raise
    if not await read_until(request, READY, COMING_SECONDS, is_ready, bool):
        raise ServiceUnavailable(
            "the pool has come up, but its agent has told of no card for "
            f"{COMING_SECONDS:g} s; nothing was done",
            hint="try again; gpupool doctor  says what the agent does",
        )
    return await run_in_threadpool(judge)
