"""Routes of the event log, below /api/v1: a piece of it, or its lines as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.answering import Cursor, Limit, Reader, Service
from gpupool.allocations.event_feed import EventFeed
from gpupool.base.errors import NotAllowed, NotLoggedIn
from gpupool.model.tenant import Permission
from gpupool.tenancy.access import recheck
from gpupool.wire.common import Event

router = APIRouter(tags=["jobs"])
HEARTBEAT_SECONDS = 15.0


@router.get("/events", tags=["events"])
def list_events(allocations: Service, caller: Reader, after: Cursor = 0, limit: Limit = 100) -> list[Event]:
    """A piece of the event log: the pool's own events and those of the caller's tenant."""
    return allocations.events(caller, after, limit)


@router.get("/watch", tags=["events"], response_class=StreamingResponse)
async def watch(request: Request, allocations: Service, caller: Reader, after: Cursor = 0) -> StreamingResponse:
    """Events as they come, one JSON object a line, a blank line every 15 s. Resume with the last `seq` as `after`."""
    await run_in_threadpool(allocations.events, caller, after, 1)  # a number of another log is told so
    return StreamingResponse(_lines(request, allocations.event_feed, after), media_type="application/x-ndjson")


async def _lines(request: Request, feed: EventFeed, after: int) -> AsyncIterator[str]:
    while not await request.is_disconnected():
        try:
            caller = await recheck(request, Permission.READ)
        except (NotLoggedIn, NotAllowed):
            return  # its token was revoked, its user disabled: the next request is told so
        batch = await feed.after(after, caller)
        after = batch.after
        if batch.lines:
            yield "".join(batch.lines)
        if not batch.behind and not await feed.wait(HEARTBEAT_SECONDS):
            yield "\n"
