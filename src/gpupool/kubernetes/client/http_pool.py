"""Connections to one server, plain or by TLS, and requests as they go there."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from gpupool.kubernetes.client.http_answer import ConnectionBroken

#: Seconds for name resolution, connection and TLS handshake together.
CONNECT_SECONDS = 30.0
#: Seconds of silence before the other side is asked whether it is there, and between questions.
KEEPALIVE_SECONDS = 15
#: Questions without an answer after which a connection is broken: with the first pause a minute,
#: as client-go notices it after 45 s.
KEEPALIVE_PROBES = 3
_KEEPALIVE = (
    ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
    ("TCP_KEEPINTVL", KEEPALIVE_SECONDS),
    ("TCP_KEEPCNT", KEEPALIVE_PROBES),
)
#: Bytes read at once.
_PIECE = 1 << 16
#: Targets that need no quoting, which is most of them.
_TARGET = re.compile(r"[!#-;=?-Z\[\]_a-z~]*", re.ASCII)


class HttpRequest(NamedTuple):
    """`headers` are whole lines, each with its end."""

    method: str
    target: str
    headers: str
    body: bytes | None = None


async def _wait_writable(one: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def mark_ready() -> None:
        # The loop may call again before the waiter runs, or after it was cancelled.
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(one.fileno(), mark_ready)
    try:
        await ready
    finally:
        loop.remove_writer(one.fileno())


def _keep_alive(made: socket.socket) -> None:
    """Have the kernel ask whether the other side is still there, where nothing else does."""
    # A watch may say nothing for a minute, and a machine that dies says nothing at all.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        # macOS, where only the kubectl plugin runs, has no TCP_KEEPIDLE.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class PlainSocket:
    """A connection without TLS."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made

    async def send(self, data: bytes) -> None:
        """Send all bytes. Raises OSError."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                await _wait_writable(self.socket)

    def receive_bytes(self) -> bytes:
        """Return the bytes that have arrived; empty if the other side has ended the connection.

        Raises:
            BlockingIOError: nothing has arrived.
        """
        return self.socket.recv(_PIECE)


class TlsSocket(PlainSocket):
    """A connection with TLS."""

    # `ssl.SSLSocket` takes two system calls per record, and a server sends one answer in about ten
    # records. Here one `recv` takes them all.

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
                self._take_records(await loop.sock_recv(self.socket, _PIECE))

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

    def receive_bytes(self) -> bytes:
        while not (pieces := self._read_records()):
            self._take_records(super().receive_bytes())
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def _take_records(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _read_records(self) -> list[bytes]:
        """Return the whole records; an empty piece if the other side has ended the connection."""
        found: list[bytes] = []
        try:
            while piece := self._tls.read(_PIECE):
                found.append(piece)
            # The end is only reported when nothing comes with it; the next call reports it again.
            found = found or [b""]
        except ssl.SSLWantReadError:
            self._send_reply()
        except ssl.SSLEOFError:
            # Ended without TLS's own goodbye. It is raised again by the next call.
            if not found:
                raise
        return found

    def _send_reply(self) -> None:
        """Send what TLS itself answers, such as to a key update: a few bytes."""
        # A sender in progress takes these bytes along; written here they would cut a record apart.
        if not self._outgoing.pending or self._sending:
            return
        try:
            self.socket.sendall(self._outgoing.read())
        except BlockingIOError:
            raise ConnectionBroken("an answer of TLS was not taken") from None


class ServerAddress:
    """Where connections go: https with `tls`, or http."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        found = urlsplit(url)
        self.host = found.hostname or ""
        self._tls = tls if found.scheme == "https" else None
        self._port = found.port or (443 if self._tls else 80)
        self._prefix = found.path.rstrip("/")
        self._named = found.netloc.rpartition("@")[2]

    def encode_request(self, request: HttpRequest) -> bytes:
        """Return the request as bytes of HTTP/1.1."""
        target = self._prefix + request.target
        if not _TARGET.fullmatch(target):
            target = quote(target, safe="%/:=&?~+!$,;'@()*[]")
        length = "" if request.body is None else f"Content-Length: {len(request.body)}\r\n"
        head = f"{request.method} {target} HTTP/1.1\r\nHost: {self._named}\r\n{length}{request.headers}\r\n"
        return head.encode("latin-1") + (request.body or b"")

    async def open_connection(self) -> PlainSocket:
        """A new connection, ready to be written. Raises OSError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            return await self._open_socket()

    async def _open_socket(self) -> PlainSocket:
        loop = asyncio.get_running_loop()
        error: OSError = ConnectionBroken(f"{self.host} has no address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            self.host, self._port, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            try:
                await loop.sock_connect(made, address)
                # A small request must not wait for the acknowledgement of the one before.
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(made)
                if self._tls is None:
                    return PlainSocket(made)
                wire = TlsSocket(made, self._tls, self.host)
                await wire.shake_hands()
                return wire
            except OSError as failure:
                # The next address of the name may be reachable.
                made.close()
                error = failure
            except BaseException:
                made.close()
                raise
        raise error
