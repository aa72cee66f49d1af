"""Server-sent events: answers that a browser's EventSource reads and resumes.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Final

from fastapi import Request
from fastapi.responses import StreamingResponse

from gpupool.base.errors import BadOption

MEDIA_TYPE: Final = "text/event-stream"
#: How the OpenAPI document describes a stream.
SCHEMA: Final = {"schema": {"type": "string"}}
#: Seconds between two comments of a silent stream, so that proxies keep it open.
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = ": \n\n"


def accepts_events(request: Request) -> bool:
    """Return whether the caller is an EventSource, which names this media type alone."""
    return request.headers.get("accept", "").split(";")[0].strip().lower() == MEDIA_TYPE


def read_position(last_event: str | None, otherwise: int) -> int:
    """Return the position of a browser that resumes; else the one that its address names.

    An EventSource asks for the address of its start again, so its header goes before the address.
    """
    if last_event is None:
        return otherwise
    if not (last_event.isascii() and last_event.isdigit() and len(last_event) < 19):
        raise BadOption(
            f"Last-Event-ID {last_event[:32]!r} is no position",
            hint="send the `id` of the last event",
        )
    return int(last_event)


def format_event(name: str, data: Mapping[str, object], position: int | None = None) -> str:
    """Format one event; its JSON has no line breaks."""
    numbered = "" if position is None else f"id: {position}\n"
    return f"{numbered}event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def respond(
    frames: AsyncIterator[str], headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """Answer with a stream that neither a cache nor a proxy holds back."""
    kept_open = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        frames, media_type=MEDIA_TYPE, headers={**kept_open, **(headers or {})}
    )
