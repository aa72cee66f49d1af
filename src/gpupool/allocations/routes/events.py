"""Routes of the event log, below /api/v1: a page of it, or its lines as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.routes import streaming
from gpupool.allocations.routes.dependencies import Cursor, Limit, Reader, Service
from gpupool.allocations.views.event_feed import (
    EventFeed,
    EventFormat,
    format_frame,
    format_line,
)
from gpupool.api.late_routes import Router
from gpupool.base.errors import NoPermission, NotLoggedIn
from gpupool.model.tenant import Permission
from gpupool.tenancy.access import recheck_caller
from gpupool.wire.common import Event

router = Router(tags=["jobs"])
#: Seconds between two blank lines of a silent stream, so that proxies keep it open.
HEARTBEAT_SECONDS = streaming.HEARTBEAT_SECONDS
#: A header, not a field of each event: clients of earlier versions refuse fields that they do not
#: know.
EPOCH_HEADER = "Gpupool-Event-Epoch"
Epoch = Annotated[
    str | None,
    Query(
        max_length=64,
        description=f"`{EPOCH_HEADER}` of the answer that `after` is from; another one is refused",
    ),
]


@router.get("/events", tags=["events"])
def list_events(
    response: Response,
    allocations: Service,
    caller: Reader,
    after: Cursor = 0,
    limit: Limit = 100,
    epoch: Epoch = None,
) -> list[Event]:
    """A piece of the event log: the pool's own events and those of the caller's tenant.

    The header `Gpupool-Event-Epoch` names the log. Send it back as `epoch` with `after`.
    """
    found = allocations.events.read_events(caller, after, limit, epoch)
    response.headers[EPOCH_HEADER] = allocations.events.read_event_epoch()
    return found


LastEvent = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=20,
        description="`id` of the last event that a browser had; goes before `after`",
    ),
]


@router.get(
    "/watch",
    tags=["events"],
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {
                "application/x-ndjson": streaming.SCHEMA,
                streaming.MEDIA_TYPE: streaming.SCHEMA,
            }
        }
    },
)
async def watch(
    request: Request,
    allocations: Service,
    caller: Reader,
    after: Cursor = 0,
    epoch: Epoch = None,
    last_event: LastEvent = None,
) -> StreamingResponse:
    """Events as they come, one JSON object a line, a blank line every 15 s.

    Resume with the last `seq` as `after` and the header `Gpupool-Event-Epoch` as `epoch`. With
    `Accept: text/event-stream` they come as a browser's EventSource reads them.
    """
    is_browser = streaming.accepts_events(request)
    if is_browser:
        after = streaming.read_position(last_event, after)
    # Before the stream begins, so that a position of another log is answered with an error status.
    await run_in_threadpool(allocations.events.read_events, caller, after, 1, epoch)
    found_epoch = await run_in_threadpool(allocations.events.read_event_epoch)
    headers = {EPOCH_HEADER: found_epoch}
    if is_browser:
        facts = {"epoch": found_epoch, "after": after}
        frames = _stream_frames(request, allocations.event_feed, after, facts)
        return streaming.respond(frames, headers)
    lines = _stream_events(request, allocations.event_feed, after, format_line, "\n")
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


async def _stream_frames(
    request: Request, feed: EventFeed, after: int, facts: dict[str, object]
) -> AsyncIterator[str]:
    # EventSource shows no header to its page, so the epoch comes as the first event.
    yield streaming.format_event("log", facts)
    async for frames in _stream_events(request, feed, after, format_frame, streaming.HEARTBEAT):
        yield frames


async def _stream_events(
    request: Request, feed: EventFeed, after: int, form: EventFormat, heartbeat: str
) -> AsyncIterator[str]:
    # A client that leaves has the answer cancelled.
    while True:
        try:
            caller = await recheck_caller(request, Permission.READ)
        except (NotLoggedIn, NoPermission):
            # Its token was revoked or its user disabled. The next request gets the error: this
            # one has its status already.
            return
        batch = await feed.read_batch(after, caller, form)
        after = batch.after
        if batch.lines:
            yield "".join(batch.lines)
        if not batch.behind and not await feed.wait_for_events(after, HEARTBEAT_SECONDS):
            yield heartbeat
