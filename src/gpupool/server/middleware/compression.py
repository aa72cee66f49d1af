"""The layer that compresses long JSON answers of GET for callers that take gzip. Streams and the
answers of services pass as they are."""

from __future__ import annotations

import gzip
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.server.console.files import accepts_gzip
from gpupool.serving.door import PREFIX as SERVICE_PREFIX

#: A shorter answer fits one packet as it is.
SMALLEST_BYTES: Final = 1024
#: Above it compressing takes milliseconds, which others on the event loop would wait for.
THREAD_BYTES: Final = 64 << 10
#: Three quarters of what level 9 saves, in a third of its time.
LEVEL: Final = 5


class CompressionMiddleware:
    """ASGI layer around answers. It must lie outside of those that look at an answer's length.

    GET alone: answers to writes may have a new secret, whose length must not depend on other text.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] == "GET"
        # Here an answer is held until it is whole; that of a service may have any size.
        if not is_read or scope["path"].startswith(SERVICE_PREFIX) or not accepts_gzip(scope):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, CompressedAnswer(send).send)


class CompressedAnswer:
    """One answer. What names no length is a stream and passes as it comes."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None
        self._pieces: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_long_json(message):
            self._head = message
            return
        if self._head is None:
            await self._send(message)
            return
        self._pieces.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        body = b"".join(self._pieces)
        large = len(body) > THREAD_BYTES
        packed = await run_in_threadpool(_compress, body) if large else _compress(body)
        headers = MutableHeaders(scope=self._head)
        headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(packed))
        headers.add_vary_header("Accept-Encoding")
        head = self._head
        self._head = None
        await self._send(head)
        await self._send({"type": "http.response.body", "body": packed})


def _is_long_json(head: Message) -> bool:
    found = {name.lower(): value for name, value in head.get("headers", ())}
    length = found.get(b"content-length", b"")
    return (
        length.isdigit()
        and int(length) >= SMALLEST_BYTES
        and found.get(b"content-type", b"").startswith(b"application/json")
        and b"content-encoding" not in found
    )


def _compress(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)
