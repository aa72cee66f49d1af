"""The layer that lets a server answer only while it leads, never from a view that is out of date.

After a pause or a partition another server may have written. So the lease is looked at before a
request is begun, and again before each part of its answer is sent. Decision 0023.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import GpupoolError
from gpupool.server.http.problems import problem_response
from gpupool.store.leadership import LeaderLease

#: Says of this server alone whether it leads, so it tells nothing that may be out of date.
HEALTH: Final = "/healthz"


class LeadershipMiddleware:
    """ASGI layer around everything that reads or writes. Does nothing without a lease (SQLite)."""

    def __init__(self, app: ASGIApp, leading: LeaderLease | None) -> None:
        self._app = app
        self._leading = leading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._leading is None or scope["type"] != "http" or scope["path"] == HEALTH:
            await self._app(scope, receive, send)
            return
        try:
            self._leading.check_begin()
        except GpupoolError as error:
            await problem_response(error, {"Connection": "close"})(scope, receive, send)
            return
        answer = LeaderAnswer(scope, receive, send, self._leading)
        await self._app(scope, receive, answer.send)


class LeaderAnswer:
    """One answer. Where the lease is over, the error is answered in its place."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, leading: LeaderLease) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._leading = leading
        self._started = self._replaced = False

    async def send(self, message: Message) -> None:
        if self._replaced:
            return
        try:
            self._leading.check_answer()
        except GpupoolError as error:
            if self._started:
                raise  # half of it is out: the connection must break, or it would look complete
            self._replaced = True
            await problem_response(error, {"Connection": "close"})(
                self._scope, self._receive, self._send
            )
            return
        self._started = True
        await self._send(message)
