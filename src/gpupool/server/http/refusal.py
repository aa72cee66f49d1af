"""Tell a caller that its connection is refused: an answer to its first bytes, then the end.

Few are told at a time and for a short while; beyond that a connection is only closed, so that
telling costs the pool nothing that the bound was to save.
"""

from __future__ import annotations

import asyncio
import json

from gpupool import __version__
from gpupool.base.errors import GpupoolError
from gpupool.server.http.problems import problem_response

#: Refused callers that are being told at the same time.
TOLD_AT_ONCE = 64
#: How long one has to send its request.
SECONDS = 2.0


class RefusedConnection(asyncio.Protocol):
    """A connection that gets one answer, whatever it asks."""

    told_now = 0

    def __init__(self, transport: asyncio.Transport, error: GpupoolError) -> None:
        self._transport = transport
        self._error = error
        self._timer: asyncio.TimerHandle | None = None
        self._counted = RefusedConnection.told_now < TOLD_AT_ONCE
        if not self._counted:
            transport.abort()
            return
        RefusedConnection.told_now += 1
        self._timer = asyncio.get_running_loop().call_later(SECONDS, transport.abort)

    def data_received(self, _data: bytes) -> None:
        """Answer once; what comes after the first bytes is not read."""
        if not self._transport.is_closing():
            self._transport.write(_render_answer(self._error))
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._counted:
            self._counted = False
            RefusedConnection.told_now -= 1


def _render_answer(error: GpupoolError) -> bytes:
    response = problem_response(error)
    phrase = json.loads(bytes(response.body))["title"]
    headers = [
        *response.raw_headers,
        (b"connection", b"close"),
        (b"gpupool-version", __version__.encode()),
    ]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return (
        f"HTTP/1.1 {response.status_code} {phrase}\r\n".encode()
        + lines
        + b"\r\n"
        + bytes(response.body)
    )
