"""Frames of WebSockets (RFC 6455, 5.2) in bytes that pass: where one ends, and the last one. Pure."""

from __future__ import annotations

import struct
from typing import Final

#: Bytes of a frame's head without a long length and without a mask.
_SHORT_HEAD: Final = 2
_MASK_BYTES: Final = 4
#: Of the second byte of a head.
_MASK_BIT: Final = 0x80
_LENGTH_BITS: Final = 0x7F
#: By the length's code, the struct format of the length that follows.
_LONG: Final = {126: ">H", 127: ">Q"}
_OPCODE_BITS: Final = 0x0F
_CLOSE: Final = 8


class FrameTracker:
    """One direction of a WebSocket, by the heads of its frames; payloads are skipped unread."""

    def __init__(self) -> None:
        self._head = bytearray()
        #: Bytes of the payload that are to come; None: the head is not complete.
        self._left: int | None = None
        #: Whether a close frame has begun: no frame may follow it.
        self.has_closed = False

    @property
    def is_between(self) -> bool:
        """Whether no frame is under way."""
        return not self._head

    def feed(self, data: bytes | memoryview) -> None:
        """Take bytes that pass."""
        view = memoryview(data)
        while view:
            view = view[self.feed_one(view) :]

    def feed_one(self, data: memoryview) -> int:
        """Take bytes up to the end of one frame at most. Returns how many."""
        taken = 0
        while self._left is None:
            missing = self._measure_head() - len(self._head)
            if not missing:
                self._left = self._read_length()
                self.has_closed |= self._head[0] & _OPCODE_BITS == _CLOSE
                break
            piece = data[taken : taken + missing]
            self._head += piece
            taken += len(piece)
            if len(piece) < missing:
                return taken
        step = min(self._left, len(data) - taken)
        self._left -= step
        if not self._left:
            self._head.clear()
            self._left = None
        return taken + step

    def _measure_head(self) -> int:
        if len(self._head) < _SHORT_HEAD:
            return _SHORT_HEAD
        second = self._head[1]
        long = _LONG.get(second & _LENGTH_BITS)
        size = _SHORT_HEAD + (0 if long is None else struct.calcsize(long))
        return size + (_MASK_BYTES if second & _MASK_BIT else 0)

    def _read_length(self) -> int:
        code = self._head[1] & _LENGTH_BITS
        long = _LONG.get(code)
        return code if long is None else int(struct.unpack_from(long, self._head, _SHORT_HEAD)[0])


def make_close_frame(code: int, *, from_client: bool) -> bytes:
    """Return a close frame; a client's is masked, here with zeros, which change nothing."""
    payload = struct.pack(">H", code)
    first = bytes([0x80 | _CLOSE])
    if from_client:
        return first + bytes([_MASK_BIT | len(payload)]) + bytes(_MASK_BYTES) + payload
    return first + bytes([len(payload)]) + payload
