"""A peer that speaks just enough HTTP on a real socket to misbehave in the ways a pool can."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HANG_UP = b""
"""A handler's answer that closes the connection without a word."""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Which connection of the client it came on, counted from 1."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def reply(
    value: Any = None, status: int = 200, headers: str = "", kind: str = "application/json"
) -> bytes:
    """A whole answer with a Content-Length."""
    body = (
        b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    )
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def chunked(*chunks: bytes, end: bool = True, kind: str = "application/x-ndjson") -> bytes:
    """An answer in chunks, with or without its proper end."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    parts = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    return head + b"".join(parts) + (b"0\r\n\r\n" if end else b"")


class ScriptedPool:
    """Answers each request with what `handler` gives for it; keeps what it was asked."""

    def __init__(self, state_dir: Path, handler: Callable[[Request], bytes]) -> None:
        self.state_dir, self.handler = state_dir, handler
        self.requests: list[Request] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._open: list[socket.socket] = []
        self._bind(state_dir)
        self._listening.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _bind(self, state_dir: Path) -> None:
        state_dir.mkdir(parents=True, exist_ok=True)
        folder = os.open(state_dir, os.O_PATH)
        self._listening.bind(f"/proc/self/fd/{folder}/gpupool.sock")
        os.close(folder)

    def __enter__(self) -> ScriptedPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Gone without a trace but the socket file, as after a kill -9."""
        for open_socket in (self._listening, *self._open):
            with contextlib.suppress(OSError):  # closed already
                open_socket.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            number += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream:
            while request := _read(stream, number):
                self.requests.append(request)
                answer = self.handler(request)
                if answer == HANG_UP:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                try:
                    connection.sendall(answer)
                except OSError:
                    return  # the client has gone
                if b"0\r\n\r\n" not in answer[-5:] and b"chunked" in answer:
                    connection.shutdown(socket.SHUT_RDWR)
                    return


def _read(stream: Any, connection: int) -> Request | None:
    try:
        first = stream.readline().decode()
        if not first:
            return None
        method, target, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        while line := stream.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
    except OSError:
        return None
    return Request(method, target, headers, body, connection)
