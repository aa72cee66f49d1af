"""Parses one HTTP/1.1 answer from the pieces in which it arrives. Pure."""

from __future__ import annotations

import re

#: Bytes of status line and headers; a longer head is not from an API server.
MOST_HEAD = 1 << 16
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.(\d) (\d\d\d)")


class ConnectionBroken(ConnectionError):
    """The connection ended, or what arrived is no HTTP.

    `unheard` says that nothing of the answer had arrived, so the request may be sent again.
    """

    def __init__(self, why: str, *, unheard: bool = False) -> None:
        super().__init__(why)
        self.unheard = unheard


class HttpAnswer:
    """The answer to one request: its status, and its body in pieces as they arrive."""

    def __init__(self) -> None:
        self.status = 0
        self.closes = False
        self.ended = False
        self.pieces: list[bytes] = []
        #: Bytes of the body, or of its chunk, that are to come; None: all until the connection
        #: ends.
        self._left: int | None = 0
        self._chunked = False
        self._trailing = False
        self._rest = b""

    @property
    def unheard(self) -> bool:
        """Whether nothing of the answer has arrived."""
        return not (self.status or self._rest)

    def feed_bytes(self, data: bytes) -> None:
        """Parse the next bytes of the connection. Raises ConnectionBroken if they are no HTTP."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        if not self.status:
            data = self._take_head(data)
        if not data:
            return
        if self._chunked:
            self._take_chunks(data)
        elif self._left is None:
            self.pieces.append(data)
        else:
            self._left -= len(data)
            self.pieces.append(data)
            self.ended = self._left == 0
            if self._left < 0:
                raise ConnectionBroken("the answer is longer than its head says")

    def take_body(self) -> bytes:
        """Return the part of the body that has arrived since the last call."""
        found = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        return found

    def end_body(self) -> None:
        """Note the end of the connection. Raises ConnectionBroken if more was to come."""
        if not self.status or self._left is not None or self._chunked:
            raise ConnectionBroken("the connection ended within an answer", unheard=self.unheard)
        self.ended = True

    def _take_head(self, data: bytes) -> bytes:
        head, end, body = data.partition(b"\r\n\r\n")
        if not end:
            if len(data) > MOST_HEAD:
                raise ConnectionBroken(f"the answer's head is longer than {MOST_HEAD} bytes")
            self._rest = data
            return b""
        found = _STATUS.match(head)
        if found is None:
            raise ConnectionBroken(f"the answer is no HTTP/1.1: {head[:40]!r}")
        status = int(found[2])
        # An interim answer (1xx) is followed by the real one (RFC 9110, 15.2).
        if status < 200:
            return self._take_head(body)
        self.status = status
        self.closes = found[1] == b"0" or _CLOSES.search(head) is not None
        self._chunked = _CHUNKED.search(head) is not None
        length = _LENGTH.search(head)
        self._left = int(length[1]) if length else None
        # 204 and 304 have no body whatever their headers say (RFC 9112, 6.3).
        if self._chunked or status in (204, 304):
            self._left = 0
        self.ended = self._left == 0 and not self._chunked
        # A server may refuse (401) the certificate that this connection began with: the next
        # request needs another connection.
        self.closes |= self._left is None or status == 401
        return body

    def _take_chunks(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                self.pieces.append(piece)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._rest = data[at:]
                return
            line = data[at:end]
            at = end + 2
            if self._trailing:
                self.ended = not line
            elif line:
                self._begin_chunk(line)

    def _begin_chunk(self, line: bytes) -> None:
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise ConnectionBroken(f"the answer's body is not in chunks: {line[:40]!r}") from None
        self._trailing = self._left == 0
