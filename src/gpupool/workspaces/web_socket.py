"""A stream for a page of the console: the same bytes, in messages of a WebSocket (RFC 6455).

A browser sends no `Upgrade` of ours. The cut between messages means nothing: both sides put the
messages together and read a stream of bytes, as over `gpupool-relay`. Decision 0114.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from typing import Final

from starlette.requests import HTTPConnection
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

from gpupool.base.errors import BadInput
from gpupool.workspaces.pipes import PipeEnd
from gpupool.workspaces.upgrade import ConnectionUpgrade, find_upgrade

#: RFC 6455, 1.3: what a server adds to the key of a handshake.
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION: Final = "13"
_KEY_BYTES: Final = 16


class WebSocketEnd(PipeEnd):
    """The browser's end of a stream, after the handshake. Its messages have no size of their own:
    each piece is passed on as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._protocol = Connection(ConnectionType.SERVER)

    def write(self, data: bytes | memoryview) -> None:
        if not self._is_closing() and data:
            super().write(self._protocol.send(BytesMessage(data=bytes(data))))

    def write_end(self) -> None:
        """Close: a WebSocket cannot end one direction alone."""
        self._close(CloseReason.NORMAL_CLOSURE)

    def close(self) -> None:
        self._close(CloseReason.GOING_AWAY)

    def data_received(self, data: bytes) -> None:
        try:
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                if isinstance(event, BytesMessage):
                    super().data_received(bytes(event.data))
                elif isinstance(event, Ping):
                    super().write(self._protocol.send(event.response()))
                elif isinstance(event, TextMessage):
                    self._close(CloseReason.UNSUPPORTED_DATA)
                    return
                elif isinstance(event, CloseConnection):
                    self._close(event.code)
                    return
        except ProtocolError:
            self._close(CloseReason.PROTOCOL_ERROR)

    def eof_received(self) -> bool:
        # Without a close message: the browser is gone.
        return False

    def _close(self, code: int) -> None:
        """Send the close message and close the connection behind it. Idempotent."""
        if self._is_closing():
            return
        # After a broken frame no message can be sent, and the browser learns of the end all the same.
        with contextlib.suppress(ProtocolError):
            super().write(self._protocol.send(CloseConnection(code=code)))
        super().close()

    def _is_closing(self) -> bool:
        return self.transport is None or self.transport.is_closing()


def is_web_socket(connection: HTTPConnection) -> bool:
    """Return whether a request asks for a WebSocket."""
    return connection.headers.get("upgrade", "").lower() == "websocket"


def require_web_socket(connection: HTTPConnection) -> tuple[ConnectionUpgrade, bytes]:
    """Return what takes the connection over, and the head of the answer. Raises BadInput."""
    upgrade = find_upgrade(connection.scope)
    key = connection.headers.get("sec-websocket-key", "").strip()
    version = connection.headers.get("sec-websocket-version", "")
    if upgrade is None or version != _VERSION or not _is_key(key):
        raise BadInput(
            "this handshake of a WebSocket is not understood",
            hint=f"RFC 6455: Sec-WebSocket-Version: {_VERSION} and a Sec-WebSocket-Key of 16 bytes",
        )
    digest = hashlib.sha1(key.encode("ascii") + _GUID, usedforsecurity=False).digest()
    head = (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: %s\r\n\r\n"
    )
    return upgrade, head % base64.b64encode(digest)


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except ValueError:
        return False
