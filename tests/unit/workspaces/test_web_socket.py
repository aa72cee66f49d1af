"""The same bytes in messages of a WebSocket, and what is refused of a browser."""

from __future__ import annotations

import asyncio
import socket

import pytest
from starlette.requests import HTTPConnection
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from gpupool.base.errors import BadInput
from gpupool.workspaces.pipes import BufferedPipeEnd, join_ends
from gpupool.workspaces.upgrade import UPGRADE_EXTENSION, hand_over
from gpupool.workspaces.web_socket import WebSocketEnd, require_web_socket

#: RFC 6455, 1.3.
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class Page:
    """A browser's side of a stream whose other side is `job`."""

    def __init__(self) -> None:
        self.protocol = Connection(ConnectionType.CLIENT)
        self.socket, self._here = socket.socketpair()
        self.job, self._there = socket.socketpair()
        for one in (self.socket, self.job):
            one.setblocking(False)

    async def open(self) -> None:
        end = WebSocketEnd()
        other = BufferedPipeEnd()
        await hand_over(self._here, end)
        await hand_over(self._there, other)
        join_ends(end, other)

    async def send(self, *messages: Event) -> None:
        data = b"".join(self.protocol.send(one) for one in messages)
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def read_events(self) -> list[Event]:
        """Read events of one piece; none at the end of the connection."""
        data = await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20)
        if not data:
            return []
        self.protocol.receive_data(data)
        return list(self.protocol.events())

    async def read_job(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = await asyncio.get_running_loop().sock_recv(self.job, 1 << 20)
            if not piece:
                break
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()
        self.job.close()


def browse(act: object) -> None:
    async def within() -> None:
        page = Page()
        await page.open()
        try:
            await asyncio.wait_for(act(page), 20)  # type: ignore[operator]  # a coroutine function
        finally:
            page.close()

    asyncio.run(within())


def test_messages_are_one_stream_of_bytes_in_both_directions() -> None:
    async def act(page: Page) -> None:
        big = bytes(range(256)) * 2000
        parts = [BytesMessage(data=b"ab", message_finished=False), BytesMessage(data=b"c")]
        await page.send(*parts, BytesMessage(data=big))
        assert await page.read_job(3 + len(big)) == b"abc" + big
        await asyncio.get_running_loop().sock_sendall(page.job, big)
        received = b""
        while len(received) < len(big):
            for event in await page.read_events():
                assert isinstance(event, BytesMessage)
                received += bytes(event.data)
        assert received == big

    browse(act)


def test_a_ping_is_answered_and_reaches_no_job() -> None:
    async def act(page: Page) -> None:
        await page.send(Ping(payload=b"alive"), BytesMessage(data=b"x"))
        assert await page.read_events() == [Pong(payload=b"alive")]
        assert await page.read_job(1) == b"x"

    browse(act)


def test_the_end_of_the_job_closes_with_1000() -> None:
    async def act(page: Page) -> None:
        page.job.shutdown(socket.SHUT_WR)
        [event] = await page.read_events()
        assert isinstance(event, CloseConnection)
        assert event.code == 1000
        assert await page.read_events() == []

    browse(act)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (TextMessage(data="text"), 1003),
        (CloseConnection(code=1001), 1001),
    ],
)
def test_a_text_or_a_close_ends_both_sides(sent: Event, code: int) -> None:
    async def act(page: Page) -> None:
        await page.send(sent)
        [event] = await page.read_events()
        assert isinstance(event, CloseConnection)
        assert event.code == code
        assert await page.read_job(1) == b""

    browse(act)


def test_frames_without_a_mask_end_both_sides() -> None:
    async def act(page: Page) -> None:
        await asyncio.get_running_loop().sock_sendall(page.socket, b"\x82\x01x")
        while await page.read_events():
            continue
        assert await page.read_job(1) == b""

    browse(act)


def ask(**headers: str) -> HTTPConnection:
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection(
        {"type": "http", "headers": encoded, "extensions": {UPGRADE_EXTENSION: object()}}
    )


def test_the_handshake_is_answered_as_the_standard_says() -> None:
    _, head = require_web_socket(ask(sec_websocket_key=KEY, sec_websocket_version="13"))
    assert b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n\r\n" in head


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_websocket_version": "13"},
        {"sec_websocket_key": KEY, "sec_websocket_version": "8"},
        {"sec_websocket_key": "c2hvcnQ=", "sec_websocket_version": "13"},
        {"sec_websocket_key": "not base64!", "sec_websocket_version": "13"},
    ],
)
def test_a_handshake_of_another_kind_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        require_web_socket(ask(**headers))
