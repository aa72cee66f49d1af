"""One answer of HTTP/1.1, read from whatever pieces it comes in. Pure."""

from __future__ import annotations

import re

MOST_HEAD = 1 << 16
"""Bytes."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.(\d) (\d\d\d)")


class Broken(ConnectionError):
    """The connection ended, or what came is no HTTP. `unheard`: before anything of the answer came."""

    def __init__(self, why: str, *, unheard: bool = False) -> None:
        super().__init__(why)
        self.unheard = unheard


class Answer:
    """What comes of one request: its status, and its body in pieces as they come."""

    def __init__(self) -> None:
        self.status = 0
        self.closes = False
        self.ended = False
        self.pieces: list[bytes] = []
        self._left: int | None = 0
        """Bytes of the body, or of its chunk, that are to come; None: all until the connection ends."""
        self._chunked = False
        self._trailing = False
        self._rest = b""

    @property
    def unheard(self) -> bool:
        """Nothing of it has come."""
        return not (self.status or self._rest)

    def take(self, data: bytes) -> None:
        """The next bytes of the connection. Raises Broken where they are no HTTP."""
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
                raise Broken("the answer is longer than its head says")

    def taken(self) -> bytes:
        """The body as far as it has come since it was taken last."""
        found = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        return found

    def end(self) -> None:
        """The connection ended. Raises Broken where more was to come."""
        if not self.status or self._left is not None or self._chunked:
            raise Broken("the connection ended within an answer", unheard=self.unheard)
        self.ended = True

    def _take_head(self, data: bytes) -> bytes:
        head, end, body = data.partition(b"\r\n\r\n")
        if not end:
            if len(data) > MOST_HEAD:
                raise Broken(f"the answer's head is longer than {MOST_HEAD} bytes")
            self._rest = data
            return b""
        found = _STATUS.match(head)
        if found is None:
            raise Broken(f"the answer is no HTTP/1.1: {head[:40]!r}")
        status = int(found[2])
        if status < 200:  # more is to come
            return self._take_head(body)
        self.status = status
        self.closes = found[1] == b"0" or _CLOSES.search(head) is not None
        self._chunked = _CHUNKED.search(head) is not None
        length = _LENGTH.search(head)
        self._left = int(length[1]) if length else None
        if self._chunked or status in (204, 304):
            self._left = 0
        self.ended = self._left == 0 and not self._chunked
        self.closes |= self._left is None or status == 401  # it may be for who we are on this connection
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
            line, at = data[at:end], end + 2
            if self._trailing:
                self.ended = not line
            elif line:
                self._begin_chunk(line)

    def _begin_chunk(self, line: bytes) -> None:
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise Broken(f"the answer's body is not in chunks: {line[:40]!r}") from None
        self._trailing = self._left == 0
