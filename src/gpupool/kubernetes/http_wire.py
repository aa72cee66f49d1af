"""Connections to one server, plain or by TLS, and requests as they go there."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from gpupool.kubernetes.http_answer import Broken

CONNECT_SECONDS = 30.0
_PIECE = 1 << 16
_TARGET = re.compile(r"[!#-;=?-Z\[\]_a-z~]*", re.ASCII)


class Request(NamedTuple):
    """`headers` are whole lines, each with its end."""

    method: str
    target: str
    headers: str
    body: bytes | None = None


async def _writable(one: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(one.fileno(), tell)
    try:
        await ready
    finally:
        loop.remove_writer(one.fileno())


class Wire:
    """A connection as it is."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made

    async def send(self, data: bytes) -> None:
        """Raises OSError."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                await _writable(self.socket)

    def received(self) -> bytes:
        """What has come; empty where the other side has ended it. Raises BlockingIOError where nothing has."""
        return self.socket.recv(_PIECE)


class SecuredWire(Wire):
    """By TLS. The library's own socket takes two system calls a record, of which a server makes ten of an answer."""

    def __init__(self, made: socket.socket, tls: ssl.SSLContext, host: str) -> None:
        super().__init__(made)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._sending = False

    async def shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._tls.do_handshake()
                await super().send(self._outgoing.read())
                return
            except ssl.SSLWantReadError:
                await super().send(self._outgoing.read())
                self._take(await loop.sock_recv(self.socket, _PIECE))

    async def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        self._sending = True
        try:
            while self._outgoing.pending:
                await super().send(self._outgoing.read())
        finally:
            self._sending = False

    def received(self) -> bytes:
        while not (pieces := self._opened()):
            self._take(super().received())
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def _take(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _opened(self) -> list[bytes]:
        """What is there in whole records; the empty piece where the other side has ended it."""
        found: list[bytes] = []
        try:
            while piece := self._tls.read(_PIECE):
                found.append(piece)
            found = found or [b""]  # the end is told again
        except ssl.SSLWantReadError:
            self._reply()
        except ssl.SSLEOFError:  # without a word of TLS; it is raised again
            if not found:
                raise
        return found

    def _reply(self) -> None:
        """What TLS itself answers, such as to new keys: a few bytes. One that is sending takes them along."""
        if not self._outgoing.pending or self._sending:
            return
        try:
            self.socket.sendall(self._outgoing.read())
        except BlockingIOError:
            raise Broken("an answer of TLS was not taken") from None


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

    async def connected(self) -> Wire:
        """A new connection, ready to be written. Raises OSError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            return await self._connected()

    async def _connected(self) -> Wire:
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
                if self._tls is None:
                    return Wire(made)
                wire = SecuredWire(made, self._tls, self.host)
                await wire.shake_hands()
                return wire
            except OSError as failure:
                made.close()
                error = failure
            except BaseException:
                made.close()
                raise
        raise error
