"""One connection: heads, bodies in pieces, and what does not speak HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.client import connection
from gpupool.client.connection import BrokenConnectionError, PoolConnection
from gpupool.client.endpoints import list_endpoints
from tests.unit.client.scripted_pool import HANG_UP, ScriptedPool, chunked, reply


@contextmanager
def connected(folder: Path, answer: bytes) -> Iterator[PoolConnection]:
    """A connection that has sent one GET to a server with that answer."""
    with ScriptedPool(folder, lambda _: answer) as pool:
        (endpoint,) = list_endpoints(ClientSettings(state_dir=pool.state_dir))
        made = PoolConnection(endpoint)
        made.send(["GET", "/api/v1/pool"], b"")
        try:
            yield made
        finally:
            made.close()


def test_answer_has_status_lower_case_headers_and_body(tmp_path: Path) -> None:
    with connected(tmp_path, reply(b"words", 201, "X-Kind:  Odd \r\n")) as made:
        status, headers, body = made.answer("GET")
    assert (status, headers["x-kind"], body) == (201, "Odd", b"words")


def test_interim_answers_are_skipped(tmp_path: Path) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nA: b\r\n\r\n"
    with connected(tmp_path, interim + reply(b"words")) as made:
        assert made.answer("GET")[0] == 200


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_answers_without_a_body_have_none(tmp_path: Path, method: str, status: int) -> None:
    with connected(tmp_path, f"HTTP/1.1 {status} X\r\nContent-Length: 9\r\n\r\n".encode()) as made:
        assert made.answer(method) == (status, {"content-length": "9"}, b"")


def test_chunks_are_put_together_without_their_extensions(tmp_path: Path) -> None:
    plain = chunked(b"one ", b"two")
    assert b"4\r\none " in plain
    with connected(tmp_path, plain.replace(b"4\r\none ", b"4;name=x\r\none ")) as made:
        assert made.answer("GET")[2] == b"one two"


def test_body_without_a_length_ends_with_the_connection(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nX: chunked\r\n\r\nall of it"
    with connected(tmp_path, answer) as made:
        assert made.answer("GET")[2] == b"all of it"


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n", b"HTTP/1.1 abc X\r\n", b"HTTP/1.1\r\n"])
def test_peer_that_speaks_no_http_is_named_so(tmp_path: Path, answer: bytes) -> None:
    with connected(tmp_path, answer) as made, pytest.raises(BrokenConnectionError, match="HTTP"):
        made.head()


def test_header_line_beyond_its_bound_is_no_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MAX_LINE", 100)
    with connected(tmp_path, b"x" * 200) as made, pytest.raises(BrokenConnectionError):
        made.head()


def test_connection_that_ends_before_its_answer_is_broken(tmp_path: Path) -> None:
    with connected(tmp_path, HANG_UP) as made, pytest.raises(BrokenConnectionError):
        made.head()


def test_connection_with_bytes_nobody_asked_for_is_stale(tmp_path: Path) -> None:
    with connected(tmp_path, reply(b"words")) as made:
        made.answer("GET")
        assert not made.is_stale()
    with connected(tmp_path / "b", reply(b"words") + b"more") as made:
        made.answer("GET")
        assert made.is_stale()
