"""The layer that lets no answer out before what it may tell of is on disk.

An answer may tell of any commit until now, its own or another's, so it waits for all of them. Group
commit makes this cheap: one flush serves every answer that waits (`store.durability`). Nothing
waits where nothing was written.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.base.errors import GpupoolError
from gpupool.server.http.problems import problem_response
from gpupool.serving.door import PREFIX as SERVICE_PREFIX
from gpupool.store.durability import CommitDurability

#: What a process says of itself: it tells of no commit, and is asked most when the disk does not
#: answer.
OF_ITSELF: Final = frozenset({"/healthz", "/api/v1/checks"})


class DurableAnswerMiddleware:
    """ASGI layer around everything that writes, and inside the one that names the version."""

    def __init__(self, app: ASGIApp, durability: CommitDurability) -> None:
        self._app = app
        self._durability = durability

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        # What a replica answers tells of no commit of the pool: no token of a text waits for a disk.
        if path in OF_ITSELF or path.startswith(SERVICE_PREFIX):
            await self._app(scope, receive, send)
            return
        answer = DurableAnswer(scope, receive, send, self._durability)
        await self._app(scope, receive, answer.send)


class DurableAnswer:
    """One answer. Where its commits are lost, the error is answered in its place.

    A head that names a length goes out with the first of its body, so that both wait for one flush:
    a caller can do nothing with the head alone. Others, as a watcher's, go out by themselves.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, durability: CommitDurability
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._durability = durability
        self._started = self._replaced = False
        self._head: Message | None = None

    async def send(self, message: Message) -> None:
        if self._replaced:
            return
        if _names_length(message):
            self._head = message
            return
        try:
            await self._durability.await_durable()
        except GpupoolError as error:
            if self._started or self._scope["type"] != "http":
                raise  # half of it is out: the connection must break, or it would look complete
            self._replaced = True
            await problem_response(error, {"Connection": "close"})(
                self._scope, self._receive, self._send
            )
            return
        self._started = True
        if self._head is not None:
            await self._send(self._head)
            self._head = None
        await self._send(message)


def _names_length(message: Message) -> bool:
    if message["type"] != "http.response.start":
        return False
    return any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
