"""A refused connection gets one answer, and few are told at a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpupool.base.errors import TooManyConnections
from gpupool.server.http.refusal import TOLD_AT_ONCE, RefusedConnection

ERROR = TooManyConnections("uid 7 has 3 connections", open=3, most=3, retry_after_seconds=5)


class Transport:
    def __init__(self) -> None:
        self.sent = b""
        self.closed = False
        self.aborted = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


def refuse() -> tuple[RefusedConnection, Transport]:
    transport: Any = Transport()
    return RefusedConnection(transport, ERROR), transport


def test_a_refused_connection_is_answered_once_and_closed() -> None:
    async def talk() -> bytes:
        connection, transport = refuse()
        connection.data_received(b"GET / HTTP/1.1")
        connection.data_received(b"more")
        connection.connection_lost(None)
        assert transport.closed
        return transport.sent

    head, _, body = asyncio.run(talk()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ")
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["code"] == "GP-5032"


def test_beyond_so_many_a_connection_is_only_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusedConnection, "told_now", TOLD_AT_ONCE - 1)

    async def talk() -> tuple[bool, bool]:
        last, told = refuse()
        over, dropped = refuse()
        over.connection_lost(None)
        assert RefusedConnection.told_now == TOLD_AT_ONCE, "what was not told is not counted off"
        last.connection_lost(None)
        return told.aborted, dropped.aborted

    assert asyncio.run(talk()) == (False, True)
    assert RefusedConnection.told_now == TOLD_AT_ONCE - 1
