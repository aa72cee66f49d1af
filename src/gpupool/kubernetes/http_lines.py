"""HTTP/1.1 to one server over connections that are kept: no more of it than the API server of a cluster needs.

A socket is read in one callback of the loop and written where it is asked, and TLS is done between: asyncio's layers
took half of what a request costs (docs/measured). No redirects, proxies, compression or upgrades.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from gpupool.kubernetes.http_answer import Answer, Broken
from gpupool.kubernetes.http_wire import Request, Server, Wire

IDLE_SECONDS = 15.0
"""A connection that rested for longer is not used again: what stands between may have forgotten it without a word."""
_AGAIN = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that may be sent twice."""


class Line:
    """One connection, with one request at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._answer: Answer | None = None
        self._enough: Callable[[], bool] = lambda: True
        self._news: asyncio.Future[None] | None = None
        self._error: OSError | None = None
        self._rests_since = self._loop.time()
        self._loop.add_reader(wire.socket.fileno(), self._read)

    @property
    def usable(self) -> bool:
        return self._error is None and self._loop.time() - self._rests_since < IDLE_SECONDS

    async def head(self, request: bytes) -> Answer:
        """Send it; its answer, of which the head has come. Raises OSError."""
        answer = await self._sent(request)
        await self._until(lambda: answer.status > 0)
        return answer

    async def whole(self, request: bytes) -> Answer:
        """Send it; its answer with all of the body. Raises OSError."""
        answer = await self._sent(request)
        await self._until(lambda: answer.ended)
        return answer

    async def more(self, answer: Answer) -> bytes:
        """What has come of the body since; empty at its end. Raises OSError."""
        await self._until(lambda: bool(answer.pieces) or answer.ended)
        return answer.taken()

    def done(self) -> bool:
        """The answer was read; whether the connection may be used again."""
        answer, self._answer = self._answer, None
        self._rests_since = self._loop.time()
        return self._error is None and answer is not None and answer.ended and not answer.closes

    def close(self) -> None:
        """Twice is once."""
        if self._wire.socket.fileno() >= 0:
            self._loop.remove_reader(self._wire.socket.fileno())
            self._wire.socket.close()
        self._fail(Broken("closed here"))

    async def _sent(self, request: bytes) -> Answer:
        self._answer = answer = Answer()
        try:
            await self._wire.send(request)
        except OSError as error:
            raise Broken(f"the request was not taken: {error}", unheard=True) from None
        return answer

    async def _until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            if self._error is not None:
                raise self._error
            self._enough = enough
            self._news = self._loop.create_future()
            try:
                await self._news
            finally:
                self._news = None

    def _read(self) -> None:
        """What has come; called by the loop."""
        try:
            self._take(self._wire.received())
        except BlockingIOError:
            return
        except OSError as error:
            self._loop.remove_reader(self._wire.socket.fileno())
            unheard = self._answer is None or self._answer.unheard
            self._fail(error if isinstance(error, Broken) else Broken(f"cut off: {error!r}", unheard=unheard))
            return
        if self._enough():
            self._tell()

    def _take(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.ended:
            raise Broken("bytes that nobody asked for" if data else "closed by the server", unheard=True)
        if data:
            answer.take(data)
            return
        answer.end()
        raise Broken("closed by the server")

    def _fail(self, error: OSError) -> None:
        self._error = self._error or error
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Lines:
    """Connections to one server, `limit` of them in use at once (0: any number)."""

    def __init__(self, server: Server, limit: int = 0) -> None:
        self._server = server
        self._turn = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()
        self._idle: list[Line] = []
        self._open: set[Line] = set()

    async def ask(self, request: Request) -> tuple[int, bytes]:
        """Status and body. Raises OSError; one that may be sent twice is, where a kept connection had ended."""
        data = self._server.encoded(request)
        async with self._turn:
            try:
                return await self._whole(data)
            except Broken as error:
                if not error.unheard or request.method not in _AGAIN:
                    raise
                return await self._whole(data)

    async def _whole(self, data: bytes) -> tuple[int, bytes]:
        async with self._line() as line:
            answer = await line.whole(data)
            return answer.status, answer.taken()

    @contextlib.asynccontextmanager
    async def begun(self, request: Request) -> AsyncIterator[tuple[Line, Answer]]:
        """The connection and the answer, of which the head has come. Raises OSError."""
        async with self._line() as line:
            yield line, await line.head(self._server.encoded(request))

    @contextlib.asynccontextmanager
    async def _line(self) -> AsyncIterator[Line]:
        """A connection for one request: kept where its answer was read whole."""
        line = self._rested() or await self._new()
        try:
            yield line
        except BaseException:
            self._drop(line)
            raise
        if line.done():
            self._idle.append(line)
        else:
            self._drop(line)

    def _rested(self) -> Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.usable:
                return line
            self._drop(line)
        return None

    async def _new(self) -> Line:
        line = Line(await self._server.connected())
        self._open.add(line)
        return line

    def _drop(self, line: Line) -> None:
        self._open.discard(line)
        line.close()

    def close(self) -> None:
        """Every connection; who still waits at one of them gets Broken."""
        self._idle.clear()
        for line in [*self._open]:
            self._drop(line)
