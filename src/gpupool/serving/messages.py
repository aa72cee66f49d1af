"""One request to a service and its answer, as the messages of ASGI that pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Send

#: A page of a tenant must not act on the origin of the API.
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}


class RequestBody:
    """The request's body; a request that came whole in one piece can be sent again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._first: Message | None = None
        self._is_next = False
        self.was_read = False
        self.can_repeat = True
        self.is_gone = False

    async def receive(self) -> Message:
        if self._is_next and self._first is not None:
            self._is_next = False
            return self._first
        message = await self._receive()
        self.is_gone |= message["type"] == "http.disconnect"
        if self._first is None:
            self._first = message
            self.was_read = True
            self.can_repeat = message["type"] == "http.request" and not message.get("more_body")
        return message

    def rewind(self) -> None:
        """Give the first message again."""
        self._is_next = True


class ReplicaAnswer:
    """The answer of a replica, kept from acting on the origin of the API."""

    def __init__(self, send: Send) -> None:
        self._send = send
        #: Of its head; 0: it has not begun.
        self.status = 0

    @property
    def has_begun(self) -> bool:
        return self.status != 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await self._send(message)
