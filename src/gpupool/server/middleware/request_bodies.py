"""The layer that takes in a request's body: whole, bounded, and text that every store can hold.

Below it a body is at most `LIMIT_BYTES`, valid UTF-8, and its JSON has no NUL, no lone
surrogate, no NaN and no endless nesting: things that pass a parser and break a database.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import BadInput, BodyTooLarge, InvalidBody

#: A body is taken in whole before a route sees it, so its size and its time are bounded.
LIMIT_BYTES = 4 << 20
BODY_SECONDS = 60
BODY_KEY = "gpupool.body"
#: Only a body with one of these can hold what is looked for; the others are not parsed twice.
_SUSPECT = (b"\\u", b"NaN", b"Infinity")


class RequestBodyMiddleware:
    """Reads the body of each request that may have one; `scope[BODY_KEY]` has its bytes."""

    def __init__(self, app: ASGIApp, limit_bytes: int = LIMIT_BYTES) -> None:
        self._app = app
        self._limit = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            check_address(scope)
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read_body(scope, receive)
        except TimeoutError:
            raise BadInput(
                f"the request's body did not come within {BODY_SECONDS} s", hint="send it again"
            ) from None
        if body is None:
            return  # the caller went away in the middle
        check_text(body)
        scope[BODY_KEY] = body
        await self._app(scope, _replay_body(body, receive), send)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        declared = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        self._check_size(int(declared) if declared.isdigit() else 0)
        pieces = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            self._check_size(size)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLarge(
                f"the request has {size} bytes or more, the limit is {self._limit}",
                hint="send less at a time",
                limit_bytes=self._limit,
            )


def check_address(scope: Scope) -> None:
    """Raise BadInput for a path or query with a NUL or with bytes that are no UTF-8."""
    for part in (scope.get("raw_path") or b"", scope.get("query_string") or b""):
        raw = unquote_to_bytes(part.replace(b"+", b" "))
        if b"\0" in raw:
            raise BadInput("a NUL in the address of a request means nothing", hint="leave %00 out")
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise BadInput(
                f"the address of the request is not UTF-8: {error.reason}",
                hint="encode it as UTF-8",
            ) from None


def check_text(body: bytes) -> None:
    """Raise InvalidBody for bytes that are no UTF-8, and for JSON that cannot be stored."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidBody(
            f"byte {error.start} of the request is not UTF-8", hint="send UTF-8"
        ) from None
    if any(mark in body for mark in _SUSPECT):
        try:
            _check_value(json.loads(body, parse_constant=_refuse_constant))
        except (ValueError, RecursionError):
            return  # no JSON: for the route's own parser to say


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidBody(
        f"{name} is not a number that JSON has", hint="send null for an unknown number"
    )


def _check_value(value: Any) -> None:
    # A stack of our own: endless nesting must not end in a RecursionError here.
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += (*found.keys(), *found.values())
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, str) and ("\0" in found or _has_surrogate(found)):
            raise InvalidBody(
                "a text has a NUL or half a surrogate pair in it",
                hint="send text that UTF-8 can hold",
            )


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Make a `receive` that gives the body once more, then what comes: the caller's going away."""
    given = False

    async def once_more() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once_more
