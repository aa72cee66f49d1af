"""The sockets of a server that stay bound while what answers on them changes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.base.errors import PoolAlreadyRunning
from gpupool.host.leadership.front import ListenerFront
from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.listeners import UnixListener


def saying(word: bytes) -> ASGIApp:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", str(len(word)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": word})

    return app


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> bytes:
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(length)


def test_a_kept_connection_is_answered_by_the_application_shown_last(tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"

    async def run() -> tuple[list[bytes], bool]:
        front = ListenerFront([UnixListener(socket)], OpenConnections())
        await front.show_app(saying(b"standby"))
        inode = os.stat(socket).st_ino
        reader, writer = await asyncio.open_unix_connection(socket)
        said = [await ask(reader, writer, 7)]
        await front.show_app(saying(b"leader"))
        said.append(await ask(reader, writer, 6))
        same = os.stat(socket).st_ino == inode
        writer.close()
        await front.close()
        return said, same

    assert asyncio.run(run()) == ([b"standby", b"leader"], True)
    assert not socket.exists()


def test_a_front_that_cannot_bind_says_why_and_closes(tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"

    async def run() -> None:
        first = ListenerFront([UnixListener(socket)], OpenConnections())
        await first.show_app(saying(b"first"))
        second = ListenerFront([UnixListener(socket)], OpenConnections())
        try:
            with pytest.raises(PoolAlreadyRunning):
                await second.show_app(saying(b"second"))
            assert not second.listening
            await second.close()
        finally:
            await first.close()

    asyncio.run(run())
