"""Two transports of which each gets what the other receives. On the event loop alone.

A slow reader on one side stops the reading on the other one, so that nothing piles up here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

#: Bytes that a transport may hold unsent before the other side is read no more.
HIGH_WATER = 1 << 20
#: Bytes read at once, as asyncio itself does.
READ_BYTES = 1 << 18


class PipeEnd(asyncio.Protocol):
    """One side of a pipe; `join_ends` connects two."""

    def __init__(self, on_lost: Callable[[Exception | None], None] | None = None) -> None:
        """Make an end; what it receives before it is joined waits.

        Args:
            on_lost: called once the transport has closed.
        """
        self.transport: asyncio.Transport | None = None
        self.on_lost = on_lost
        #: Called with every piece in either direction; set on the end of a job alone.
        self.note_bytes: Callable[[], None] = _note_nothing
        self._listeners: list[Callable[[], None]] = []
        self._other: PipeEnd | None = None
        self._early = bytearray()
        self._has_ended = False
        self._has_written_end = False
        self._is_lost = False
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        if self._other is None:
            self.transport.pause_reading()

    def join(self, other: PipeEnd) -> None:
        """Pass on to `other` from now on, first what came early."""
        self._other = other
        if self._early:
            other.write(bytes(self._early))
            self._early.clear()
        if self._is_lost:
            other.close()
            return
        if self._has_ended:
            other.write_end()
        assert self.transport is not None
        if not other._is_full:
            self.transport.resume_reading()

    def add_listener(self, note_end: Callable[[], None]) -> None:
        """Call `note_end` once the transport has closed; at once where it has."""
        if self._is_lost:
            note_end()
        else:
            self._listeners.append(note_end)

    def add_early(self, data: bytes) -> None:
        """Take bytes that were received before this end was made."""
        self._early += data

    @property
    def has_unsent(self) -> bool:
        """Whether the transport still has bytes to send."""
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    def write(self, data: bytes | memoryview) -> None:
        self.note_bytes()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def write_end(self) -> None:
        """Say that no more bytes come; closes a transport that can only do both, or has ended."""
        if self.transport is None or self.transport.is_closing():
            return
        self._has_written_end = True
        if self.transport.can_write_eof() and not self._has_ended:
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close once what is written has been sent. Idempotent."""
        if self.transport is not None:
            self.transport.close()

    def close_within(self, seconds: float) -> None:
        """Close, and drop what the other side has not taken by then. Idempotent."""
        if self.transport is not None:
            self.transport.close()
            asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def set_reading(self, wanted: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.note_bytes()
        if self._other is None:
            self._early += data
        else:
            self._other.write(data)

    def eof_received(self) -> bool:
        self._has_ended = True
        if self._other is not None:
            self._other.write_end()
        # Kept open while the other direction may go on. After both have ended asyncio watches the
        # connection no more, so it would stay open, and be counted, for as long as its job runs.
        return not self._has_written_end

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._other is not None:
            self._other.set_reading(True)
            self._other.close()
        while self._listeners:
            self._listeners.pop()()
        if self.on_lost is not None:
            self.on_lost(exc)

    def pause_writing(self) -> None:
        self._is_full = True
        if self._other is not None:
            self._other.set_reading(False)

    def resume_writing(self) -> None:
        self._is_full = False
        if self._other is not None:
            self._other.set_reading(True)


class BufferedPipeEnd(PipeEnd, asyncio.BufferedProtocol):
    """An end that receives into one buffer again and again: a new one for each piece costs the
    kernel 64 fresh pages."""

    def __init__(self, on_lost: Callable[[Exception | None], None] | None = None) -> None:
        super().__init__(on_lost)
        self._buffer = bytearray(READ_BYTES)

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        received = memoryview(self._buffer)[:nbytes]
        self.note_bytes()
        if self._other is None:
            self._early += received
            return
        self._other.write(received)
        if self._other.has_unsent:
            # The other transport may keep the view until it is sent (since Python 3.12).
            self._buffer = bytearray(READ_BYTES)


def join_ends(one: PipeEnd, other: PipeEnd) -> None:
    """Connect two ends, in both directions."""
    one.join(other)
    other.join(one)


def _note_nothing() -> None:
    """Note nothing: this is not the end of a job."""
