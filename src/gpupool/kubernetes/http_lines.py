"""HTTP/1.1 to one server over connections that are kept: no more of it than the API server of a cluster needs.

A socket is read in one callback of the loop and written where it is asked, TLS by the library's own socket: asyncio's
layers above it took half of what a request costs (docs/measured). No redirects, proxies, compression or upgrades.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple
from urllib.parse import quote, urlsplit

IDLE_SECONDS = 15.0
"""A connection that rested for longer is not used again: what stands between may have forgotten it without a word."""
MOST_HEAD = 1 << 16
CONNECT_SECONDS = 30.0
_PIECE = 1 << 16
_PIECES = 64
"""Read in one callback at most; others have their turn then."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.(\d) (\d\d\d)")
_TARGET = re.compile(r"[!#-;=?-Z\[\]_a-z~]*", re.ASCII)
_AGAIN = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that may be sent twice."""

_Socket = socket.socket


class Broken(ConnectionError):
    """The connection ended, or what came is no HTTP. `unheard`: before anything of the answer came."""

    def __init__(self, why: str, *, unheard: bool = False) -> None:
        super().__init__(why)
        self.unheard = unheard


class Request(NamedTuple):
    """`headers` are whole lines, each with its end."""

    method: str
    target: str
    headers: str
    body: bytes | None = None


class Server:
    """Where connections go: https with `tls`, or http."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        found = urlsplit(url)
        self.host = found.hostname or ""
        self._tls = tls if found.scheme == "https" else None
        self._port = found.port or (443 if self._tls else 80)
        self._prefix = found.path.rstrip("/")
        self._named = found.netloc.rpartition("@")[2]

    def encoded(self, request: Request) -> bytes:
        target = self._prefix + request.target
        if not _TARGET.fullmatch(target):
            target = quote(target, safe="%/:=&?~+!$,;'@()*[]")
        length = "" if request.body is None else f"Content-Length: {len(request.body)}\r\n"
        head = f"{request.method} {target} HTTP/1.1\r\nHost: {self._named}\r\n{length}{request.headers}\r\n"
        return head.encode("latin-1") + (request.body or b"")

    async def connected(self) -> _Socket:
        """A new connection, ready to be written. Raises OSError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            return await self._connected()

    async def _connected(self) -> _Socket:
        loop = asyncio.get_running_loop()
        error: OSError = Broken(f"{self.host} has no address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            self.host, self._port, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            try:
                await loop.sock_connect(made, address)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return made if self._tls is None else await self._secured(made, self._tls)
            except OSError as failure:
                made.close()
                error = failure
            except BaseException:
                made.close()
                raise
        raise error

    async def _secured(self, made: _Socket, tls: ssl.SSLContext) -> _Socket:
        secured = tls.wrap_socket(made, server_hostname=self.host, do_handshake_on_connect=False)
        try:
            while True:
                try:
                    secured.do_handshake()
                    return secured
                except ssl.SSLWantReadError:
                    await _ready(secured, writes=False)
                except ssl.SSLWantWriteError:
                    await _ready(secured, writes=True)
        except BaseException:
            secured.close()
            raise


async def _ready(one: _Socket, *, writes: bool) -> None:
    loop = asyncio.get_running_loop()
    add, remove = (loop.add_writer, loop.remove_writer) if writes else (loop.add_reader, loop.remove_reader)
    ready = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    add(one.fileno(), tell)
    try:
        await ready
    finally:
        remove(one.fileno())


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
            raise Broken("the connection ended within an answer", unheard=not (self.status or self._rest))
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


class Line:
    """One connection, with one request at a time."""

    def __init__(self, made: _Socket) -> None:
        self._socket = made
        self._loop = asyncio.get_running_loop()
        self._answer: Answer | None = None
        self._enough: Callable[[], bool] = lambda: True
        self._news: asyncio.Future[None] | None = None
        self._error: OSError | None = None
        self._rests_since = self._loop.time()
        self._loop.add_reader(made.fileno(), self._read)

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
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        self._fail(Broken("closed here"))

    async def _sent(self, request: bytes) -> Answer:
        self._answer = answer = Answer()
        left = memoryview(request)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                await _ready(self._socket, writes=True)
            except ssl.SSLWantReadError:  # our reader takes what has to come before
                await asyncio.sleep(0)
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
            for _ in range(_PIECES):
                self._take(self._socket.recv(_PIECE))
            self._loop.call_soon(self._read_on)  # TLS may hold bytes of which the socket does not tell
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass  # that is all for now
        except OSError as error:
            self._loop.remove_reader(self._socket.fileno())
            self._fail(error)
            return
        if self._enough():
            self._tell()

    def _read_on(self) -> None:
        if self._error is None:
            self._read()

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
