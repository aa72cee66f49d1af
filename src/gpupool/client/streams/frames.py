"""Frames of a program that runs elsewhere: its standard streams, its terminal's size, its end.

A frame is one byte for its kind, four for the length of its content (big-endian), the content.
Both ends use this module: the commands that start a program in a job, and the agent's session.
"""

from __future__ import annotations

import struct
from typing import Final

#: To the program: bytes of standard input, its end, the terminal's rows and columns, a signal.
INPUT: Final = 0
INPUT_END: Final = 1
RESIZE: Final = 2
SIGNAL: Final = 3
#: From the program: bytes of its output and of its errors, and its end as JSON.
OUTPUT: Final = 10
ERRORS: Final = 11
EXIT: Final = 12

_HEAD: Final = struct.Struct(">BI")
_SIZE: Final = struct.Struct(">HH")
#: Bytes of a frame's content; a peer that sends more does not speak this.
MOST_CONTENT: Final = 1 << 20


class BrokenFrameError(Exception):
    """What came is no frame."""


def encode_frame(kind: int, content: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(content)) + content


def encode_size(rows: int, columns: int) -> bytes:
    return encode_frame(RESIZE, _SIZE.pack(rows, columns))


def decode_size(content: bytes) -> tuple[int, int]:
    """Return rows and columns. Raises BrokenFrameError."""
    if len(content) != _SIZE.size:
        raise BrokenFrameError("a terminal's size has 4 bytes")
    rows, columns = _SIZE.unpack(content)
    return rows, columns


class FrameReader:
    """Divides bytes into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that are complete: kind and content. Raises BrokenFrameError."""
        self._rest += data
        frames = list[tuple[int, bytes]]()
        start = 0
        while len(self._rest) - start >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._rest, start)
            if length > MOST_CONTENT:
                raise BrokenFrameError(f"a frame of {length} bytes; {MOST_CONTENT} is the most")
            end = start + _HEAD.size + length
            if len(self._rest) < end:
                break
            frames.append((kind, bytes(self._rest[start + _HEAD.size : end])))
            start = end
        del self._rest[:start]
        return frames
