"""Dependencies shared by the routes: the service, permissions, and waiting for an answer."""

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
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.turns import wait_idle

T = TypeVar("T")
#: Seconds that an answer waits at most; proxies between client and server close silent connections.
MAX_WAIT = 60.0


async def service(request: Request) -> Allocations:
    """Return the service of the package."""
    # A coroutine, as every dependency of a hot route: FastAPI calls a plain one in a thread.
    allocations: Allocations = request.app.state.allocations
    return allocations


Service = Annotated[Allocations, Depends(service)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Runner = Annotated[Principal, Depends(require_caller(Permission.RUN))]
TenantManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]
Wait = Annotated[
    float, Query(ge=0, le=MAX_WAIT, description="answer at the latest after that many seconds")
]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[int, Query(ge=0, le=2**62)]


async def read_until(
    request: Request,
    topic: tuple[str, str],
    seconds: float,
    read: Callable[[], T],
    done: Callable[[T], bool],
) -> T:
    """Read until `done` accepts the value, the time is over, or the client disconnects.

    Args:
        request: The request, whose turn is given up meanwhile.
        topic: What a commit announces when the value may have changed.
        seconds: How long to wait at most.
        read: Reads the value, in a thread.
        done: Whether the value is the one to wait for.

    Returns:
        The last value.
    """
    deadline = time.monotonic() + seconds
    # Subscribed before the first reading: a commit between the two is not missed.
    with request.app.state.store.notifier.subscribe(topic) as ticket:
        while True:
            found = await run_in_threadpool(read)
            left = deadline - time.monotonic()
            if done(found) or left <= 0:
                return found
            async with wait_idle(request):
                has_news = await ticket.wait_for_commit(left)
            if not has_news:
                return found


async def wait_while_connected(request: Request, waiting: Awaitable[T]) -> T:
    """Return the answer, unless the client disconnects first: its lease must then begin to run.

    Raises:
        ClientDisconnect: The client has disconnected. It writes nothing to the log, because clients
            could fill the log by it.
    """
    answer = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
