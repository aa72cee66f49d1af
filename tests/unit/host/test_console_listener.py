"""The console's own listener: where a link leads, and when the port opens and closes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpupool.host.console_listener import ConsoleListener, choose_address
from gpupool.host.leadership.front import ListenerFront
from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.listeners import TcpListener, UnixListener
from gpupool.tenancy.sessions.cookies import is_through_console


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        (["/run/gpupool/gpupool.sock"], None),
        (["/run/gpupool.sock", "http://127.0.0.1:8470"], "http://127.0.0.1:8470"),
        (["http://[::1]:8470"], "http://[::1]:8470"),
        (["http://10.0.0.5:8470"], None),
        (["http://0.0.0.0:8470"], "http://127.0.0.1:8470"),
        (["http://10.0.0.5:8470", "https://10.0.0.5:8443"], "https://10.0.0.5:8443"),
        (["https://0.0.0.0:8443"], "https://machine.example.org:8443"),
    ],
)
def test_a_link_leads_to_https_or_loopback(
    addresses: list[str], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "machine.example.org")
    assert choose_address(addresses) == found


async def answer(scope: Any, _receive: Any, send: Any) -> None:
    """An application that says through which listener it was asked."""
    body = b"console" if is_through_console(scope) else b"pool"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def running_front(*listeners: Any) -> AsyncIterator[ListenerFront]:
    front = ListenerFront(listeners, OpenConnections())
    await front.show_app(answer)
    try:
        yield front
    finally:
        await front.close()


async def ask(address: str) -> bytes:
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
    found = await reader.read()
    writer.close()
    return found.rpartition(b"\r\n\r\n")[2]


def test_a_port_opens_when_it_is_asked_for_and_only_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with running_front(UnixListener(tmp_path / "p.sock")) as front:
            console = ConsoleListener(front)
            first, second = await asyncio.gather(console.open(), console.open())
            assert first == second
            assert first.startswith("http://127.0.0.1:")
            assert await ask(first) == b"console"
            await console.close()
            await console.close()
            with pytest.raises(ConnectionRefusedError):
                await ask(first)

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_pool_on_loopback_needs_no_other_port() -> None:
    async def play() -> None:
        async with running_front(TcpListener("127.0.0.1", 0)) as front:
            console = ConsoleListener(front)
            assert await console.open() == front.sockets[0].address
            assert await ask(await console.open()) == b"pool"
            await console.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_port_that_is_not_used_closes_and_opens_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with running_front(UnixListener(tmp_path / "p.sock")) as front:
            console = ConsoleListener(front, idle_seconds=0.05)
            address = await console.open()
            while True:
                try:
                    _reader, writer = await asyncio.open_connection(
                        "127.0.0.1", urlsplit(address).port
                    )
                except OSError:
                    break
                writer.close()
                await asyncio.sleep(0.01)  # between two looks from outside
            # A busy machine may take longer than that to ask.
            console._idle_seconds = 60
            assert await ask(await console.open()) == b"console"
            await console.close()

    asyncio.run(asyncio.wait_for(play(), 30))
