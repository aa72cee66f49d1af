"""Requests are encoded as HTTP/1.1, and sent over sockets that never block the event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from gpupool.kubernetes.client.http_pool import HttpRequest, PlainSocket, ServerAddress

TLS = ssl.create_default_context()


def encode(request: HttpRequest, url: str = "https://api.example:6443") -> list[str]:
    """The lines of the request's head."""
    head, _, _ = ServerAddress(url, TLS).encode_request(request).partition(b"\r\n\r\n")
    return head.decode("latin-1").split("\r\n")


def test_request_without_a_body_has_no_length() -> None:
    assert encode(HttpRequest("GET", "/api/v1/pods?limit=500", "Accept: x\r\n")) == [
        "GET /api/v1/pods?limit=500 HTTP/1.1",
        "Host: api.example:6443",
        "Accept: x",
    ]


def test_empty_body_has_the_length_0() -> None:
    assert encode(HttpRequest("POST", "/a", "", b""))[2] == "Content-Length: 0"
    assert ServerAddress("http://a", TLS).encode_request(HttpRequest("PATCH", "/a", "", b"{}")) == (
        b"PATCH /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("/a b", "/a%20b"),
        ("/a\r\nEvil: 1", "/a%0D%0AEvil:%201"),
        ("/ü", "/%C3%BC"),
        ("/a%20b", "/a%20b"),
        ("/a?x=1&y=[2]", "/a?x=1&y=[2]"),
    ],
)
def test_target_is_quoted_where_it_would_end_its_line(target: str, sent: str) -> None:
    assert encode(HttpRequest("GET", target, ""))[0] == f"GET {sent} HTTP/1.1"


def test_path_of_the_server_comes_first_and_its_password_is_not_sent() -> None:
    lines = encode(HttpRequest("GET", "/api", ""), "https://me:secret@[fd00::1]:8443/cluster/c1/")
    assert lines == ["GET /cluster/c1/api HTTP/1.1", "Host: [fd00::1]:8443"]


def test_plain_socket_waits_until_a_full_buffer_is_read() -> None:
    async def run() -> int:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for one in (ours, theirs):
                one.setblocking(False)
            data = b"x" * (4 << 20)
            sending = asyncio.ensure_future(PlainSocket(ours).send(data))
            loop = asyncio.get_running_loop()
            received = 0
            while received < len(data):
                received += len(await loop.sock_recv(theirs, 1 << 20))
            await sending
            with pytest.raises(BlockingIOError):
                PlainSocket(theirs).receive_bytes()
            return received

    assert asyncio.run(run()) == 4 << 20


def test_open_connection_to_a_closed_port_raises_the_last_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = ServerAddress(f"http://127.0.0.1:{unused.getsockname()[1]}", TLS)
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(address.open_connection())


def test_a_connection_asks_whether_a_silent_server_is_still_there() -> None:
    """A watch may say nothing, and a machine that dies does not end its connections."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            wire = await ServerAddress(f"http://127.0.0.1:{port}", TLS).open_connection()
            with wire.socket as made:
                assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                idle = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                between = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
                probes = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
                assert idle + between * probes == 60

    asyncio.run(run())
