"""What the room's routes have in common: whose service it is, what a caller may, and how long an answer may wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from gpupool.allocations.service import Allocations
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require
from gpupool.tenancy.turns import waiting_aside

T = TypeVar("T")
MAX_WAIT = 60.0


async def service(request: Request) -> Allocations:
    """Not plain, like every dependency of a hot route: a plain one is called in a thread of its own."""
    allocations: Allocations = request.app.state.allocations
    return allocations


Service = Annotated[Allocations, Depends(service)]
Reader = Annotated[Principal, Depends(require(Permission.READ))]
Runner = Annotated[Principal, Depends(require(Permission.RUN))]
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT, description="answer at the latest after that many seconds")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[int, Query(ge=0, le=2**62)]


async def until(
    request: Request, topic: tuple[str, str], seconds: float, read: Callable[[], T], done: Callable[[T], bool]
) -> T:
    """Read until it is done or the time is over; the caller's going away ends it as well."""
    deadline = time.monotonic() + seconds
    with request.app.state.store.hub.ticket(topic) as ticket:
        while True:
            found = await run_in_threadpool(read)
            left = deadline - time.monotonic()
            if done(found) or left <= 0:
                return found
            async with waiting_aside(request):
                has_news = await ticket.wait(left)
            if not has_news:
                return found


async def while_connected(request: Request, waiting: Awaitable[T]) -> T:
    """The answer, unless the client goes away first: then its lease must begin to run at once.

    Raises ClientDisconnect then, which writes nothing to the log: how often clients leave is theirs to choose.
    """
    answer = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
