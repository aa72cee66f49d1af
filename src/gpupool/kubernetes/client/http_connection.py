"""Speaks HTTP/1.1 with one server over connections that are kept open.

A socket is read in one callback of the event loop and written by the caller, with TLS in between:
asyncio's layers took half of a request's cost (docs/measured). It has what the API server of a
cluster needs and no redirects, proxies, compression or upgrades.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from gpupool.kubernetes.client.http_answer import ConnectionBroken, HttpAnswer
from gpupool.kubernetes.client.http_pool import HttpRequest, PlainSocket, ServerAddress

#: Seconds after which an idle connection is not used again: a load balancer or firewall on the way
#: may have dropped it without a word.
IDLE_SECONDS = 15.0
#: Methods that may be sent twice: they are idempotent (RFC 9110, 9.2.2).
_AGAIN = frozenset({"GET", "HEAD", "PUT", "DELETE"})


class HttpConnection:
    """One connection, with one request at a time."""

    def __init__(self, wire: PlainSocket) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._answer: HttpAnswer | None = None
        self._enough: Callable[[], bool] = lambda: True
        self._news: asyncio.Future[None] | None = None
        self._error: OSError | None = None
        self._rests_since = self._loop.time()
        self._loop.add_reader(wire.socket.fileno(), self._read_ready)

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent over it."""
        return self._error is None and self._loop.time() - self._rests_since < IDLE_SECONDS

    async def read_head(self, request: bytes) -> HttpAnswer:
        """Send the request and return its answer once the head has arrived. Raises OSError."""
        answer = await self._send_request(request)
        await self._wait_until(lambda: answer.status > 0)
        return answer

    async def read_whole(self, request: bytes) -> HttpAnswer:
        """Send the request and return its answer with the whole body. Raises OSError."""
        answer = await self._send_request(request)
        await self._wait_until(lambda: answer.ended)
        return answer

    async def read_more(self, answer: HttpAnswer) -> bytes:
        """Wait for more of the body and return it; empty at its end. Raises OSError."""
        await self._wait_until(lambda: bool(answer.pieces) or answer.ended)
        return answer.take_body()

    def end_exchange(self) -> bool:
        """End the exchange; return whether the connection may be used again."""
        answer = self._answer
        self._answer = None
        self._rests_since = self._loop.time()
        return self._error is None and answer is not None and answer.ended and not answer.closes

    def close(self) -> None:
        """Close the connection and wake its reader with an error; idempotent."""
        # A closed socket has no descriptor, and its number may belong to another connection by now.
        if self._wire.socket.fileno() >= 0:
            self._loop.remove_reader(self._wire.socket.fileno())
            self._wire.socket.close()
        self._fail_answer(ConnectionBroken("closed here"))

    async def _send_request(self, request: bytes) -> HttpAnswer:
        self._answer = answer = HttpAnswer()
        try:
            await self._wire.send(request)
        except OSError as error:
            # The server cannot have acted on a request that it did not receive whole.
            raise ConnectionBroken(f"the request was not taken: {error}", unheard=True) from None
        return answer

    async def _wait_until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            if self._error is not None:
                raise self._error
            self._enough = enough
            self._news = self._loop.create_future()
            try:
                await self._news
            finally:
                self._news = None

    def _read_ready(self) -> None:
        """Read the socket; called by the event loop when there is something to read."""
        try:
            self._take_bytes(self._wire.receive_bytes())
        except BlockingIOError:
            return
        except OSError as error:
            # Without this the loop would call again at once: a closed socket stays readable.
            self._loop.remove_reader(self._wire.socket.fileno())
            unheard = self._answer is None or self._answer.unheard
            self._fail_answer(
                error
                if isinstance(error, ConnectionBroken)
                else ConnectionBroken(f"cut off: {error!r}", unheard=unheard)
            )
            return
        if self._enough():
            self._wake_reader()

    def _take_bytes(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.ended:
            # A server closes an idle connection whenever it likes, also while the next request is
            # on its way: `unheard` lets the pool send it once more.
            raise ConnectionBroken(
                "bytes without a request" if data else "closed by the server", unheard=True
            )
        if data:
            answer.feed_bytes(data)
            return
        answer.end_body()
        raise ConnectionBroken("closed by the server")

    def _fail_answer(self, error: OSError) -> None:
        self._error = self._error or error
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class ConnectionPool:
    """Connections to one server, `limit` of them in use at once (0: any number)."""

    def __init__(self, server: ServerAddress, limit: int = 0) -> None:
        self._server = server
        self._turn = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()

    async def send_request(self, request: HttpRequest) -> tuple[int, bytes]:
        """Send the request and return status and body. Raises OSError."""
        data = self._server.encode_request(request)
        async with self._turn:
            try:
                return await self._read_answer(data)
            except ConnectionBroken as error:
                # A kept connection may have ended unnoticed. Only requests that may be sent twice
                # are: the server may have acted on this one.
                if not error.unheard or request.method not in _AGAIN:
                    raise
                return await self._read_answer(data)

    async def _read_answer(self, data: bytes) -> tuple[int, bytes]:
        async with self._lend_connection() as line:
            answer = await line.read_whole(data)
            return answer.status, answer.take_body()

    @contextlib.asynccontextmanager
    async def open_answer(
        self, request: HttpRequest, seconds: float | None = None
    ) -> AsyncIterator[tuple[HttpConnection, HttpAnswer]]:
        """Lend the connection and the answer, whose head has arrived. Raises OSError.

        Args:
            seconds: in which the head has to arrive; None: in any time.
        """
        async with self._lend_connection() as line:
            async with asyncio.timeout(seconds):
                answer = await line.read_head(self._server.encode_request(request))
            yield line, answer

    @contextlib.asynccontextmanager
    async def _lend_connection(self) -> AsyncIterator[HttpConnection]:
        """Lend a connection for one request; it is kept if its answer was read whole."""
        line = self._take_rested() or await self._open_connection()
        try:
            yield line
        except BaseException:
            # Also when cancelled: the rest of the answer would be taken for the next one's.
            self._drop_connection(line)
            raise
        if line.end_exchange():
            self._idle.append(line)
        else:
            self._drop_connection(line)

    def _take_rested(self) -> HttpConnection | None:
        while self._idle:
            line = self._idle.pop()
            if line.is_usable:
                return line
            self._drop_connection(line)
        return None

    async def _open_connection(self) -> HttpConnection:
        line = HttpConnection(await self._server.open_connection())
        self._open.add(line)
        return line

    def _drop_connection(self, line: HttpConnection) -> None:
        self._open.discard(line)
        line.close()

    def close(self) -> None:
        """Close every connection; callers that still wait get `ConnectionBroken`."""
        self._idle.clear()
        for line in [*self._open]:
            self._drop_connection(line)
