"""The address of services on a real listener, with replicas of this process behind it.

The replica is a server on a TCP port; connecting to it is what an agent does. Who calls is said by
the test, in the place of authentication.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.types import Receive, Scope, Send
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, TextMessage

from gpupool.model.tenant import Principal
from gpupool.server.http.listeners import UnixListener
from gpupool.server.http.problems import ProblemMiddleware
from gpupool.server.http.serving import serve_listeners
from gpupool.serving.door import ServiceDoor
from gpupool.serving.routing import ReplicaRoute, ServiceRoute
from gpupool.serving.service import ServingService
from gpupool.serving.traffic import ServiceLabels
from gpupool.tenancy.access import PRINCIPAL_KEY, RECHECK_KEY
from gpupool.workspaces.pipes import BufferedPipeEnd
from gpupool.workspaces.streams import OpenStream, StreamHello

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = (
    "GET /services/web/chat?a=1 HTTP/1.1\r\nHost: pool\r\nConnection: Upgrade\r\n"
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer gpt_secret\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\n\r\n"
)
#: Seconds for any step of a test.
LIMIT = 20.0


class SocketPeer:
    """One side of an open WebSocket, by wsproto."""

    def __init__(
        self, kind: ConnectionType, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._protocol = Connection(kind)
        self._reader = reader
        self.writer = writer
        self._events: list[Event] = []

    async def send(self, event: Event) -> None:
        self.writer.write(self._protocol.send(event))
        await self.writer.drain()

    async def receive(self) -> Event | None:
        """The next event; None: the connection has ended without one."""
        while not self._events:
            data = await asyncio.wait_for(self._reader.read(65536), LIMIT)
            if not data:
                return None
            self._protocol.receive_data(data)
            self._events = list(self._protocol.events())
        return self._events.pop(0)


class Replica:
    """An HTTP server that keeps what it was sent, and hands its connections to the test."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.sockets: asyncio.Queue[SocketPeer] = asyncio.Queue()
        #: Answers what asks for no WebSocket.
        self.answer: Callable[[asyncio.StreamWriter], Awaitable[None]] = answer_shortly

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if "upgrade: websocket" not in head.lower():
            await self.answer(writer)
            writer.close()
            return
        digest = hashlib.sha1(KEY.encode() + GUID, usedforsecurity=False).digest()
        accept = base64.b64encode(digest).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Set-Cookie: stolen=1\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        self.sockets.put_nowait(SocketPeer(ConnectionType.SERVER, reader, writer))


async def answer_shortly(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


class ServiceRig:
    """A service `web` with one replica, behind the server's own HTTP protocol."""

    def __init__(self, serving: ServingService, caller: Principal, socket: Path) -> None:
        self.serving = serving
        self.controller = serving.controller
        self.caller = caller
        self.socket = socket
        self.replica = Replica()
        self.service = 1
        self.public_id = "v-1"
        #: Called for each look at an open WebSocket; raises where the right has ended.
        self.recheck: Callable[[], Principal] = lambda: self.caller
        self.stop = asyncio.Event()
        self.serving_task: asyncio.Task[None] | None = None

    @property
    def labels(self) -> ServiceLabels:
        return ServiceLabels("default", "web")

    def publish(self, *, with_replica: bool = True, wait_seconds: int = 0) -> ServiceRoute:
        found = (ReplicaRoute(1, "j-1", "agent", self.replica.port),) if with_replica else ()
        tenant = self.caller.tenant_id
        route = ServiceRoute(
            self.service, self.public_id, "web", tenant, self.labels, wait_seconds, found
        )
        self.controller.book.publish([route])
        return route

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.socket))

    async def open_socket(self, handshake: str = HANDSHAKE) -> tuple[str, SocketPeer, SocketPeer]:
        """The head of the answer, the caller's side, and the replica's."""
        reader, writer = await self.connect()
        writer.write(handshake.encode())
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT)).decode()
        other = await asyncio.wait_for(self.replica.sockets.get(), LIMIT)
        return head, SocketPeer(ConnectionType.CLIENT, reader, writer), other

    async def ask(self, path: str = "/services/web/") -> tuple[int, bytes]:
        reader, writer = await self.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: pool\r\nConnection: close\r\n\r\n".encode())
        whole = await asyncio.wait_for(reader.read(), LIMIT)
        writer.close()
        head, _, body = whole.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body

    async def until_idle(self) -> None:
        """Wait until no request is under way."""
        async with asyncio.timeout(LIMIT):
            while self.controller.load.count(1) or self.controller.load.count_replica(1, 1):
                await asyncio.sleep(0)

    async def _open_stream(self, _agent: str, _job: str, target: dict[str, int]) -> OpenStream:
        end = BufferedPipeEnd()
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: end, "127.0.0.1", target["port"])
        return OpenStream(end, StreamHello())

    @asynccontextmanager
    async def run(self) -> AsyncIterator[ServiceRig]:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def recheck() -> Principal:
                return self.recheck()

            scope[PRINCIPAL_KEY] = self.caller
            scope[RECHECK_KEY] = recheck
            await door(scope, receive, send)

        async def find_nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
            raise AssertionError("the request is of no service")

        door = ServiceDoor(find_nothing, self.serving)
        self.serving.broker.open_stream = self._open_stream  # type: ignore[assignment]
        replica = await asyncio.start_server(self.replica.serve, "127.0.0.1", 0)
        self.replica.port = replica.sockets[0].getsockname()[1]
        self.publish()
        ready = asyncio.Event()
        self.serving_task = asyncio.ensure_future(
            serve_listeners(
                ProblemMiddleware(app),
                [UnixListener(self.socket, 0o600)],
                stop=self.stop,
                on_ready=lambda _: ready.set(),
            )
        )
        try:
            await asyncio.wait_for(ready.wait(), LIMIT)
            yield self
        finally:
            self.stop.set()
            await self.serving_task
            replica.close()


async def expect_text(peer: SocketPeer, text: str) -> None:
    found = ""
    is_finished = False
    while not is_finished:
        # A message may come in parts.
        event = await peer.receive()
        assert isinstance(event, TextMessage)
        found += event.data
        is_finished = event.message_finished
    assert found == text


async def expect_close(peer: SocketPeer, code: int) -> None:
    event = await peer.receive()
    assert isinstance(event, CloseConnection)
    assert event.code == code
