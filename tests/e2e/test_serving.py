"""A service of real processes: it follows the load, replaces what fails, and fails no request."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, TextMessage

from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claim_port
from tests.support.service_replicas import KEY

pytestmark = pytest.mark.nightly

#: A server that takes 0.2 s for a request and says which job answers.
SERVE = """
import http.server, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/health":
            time.sleep(0.2)
        self.answer(os.environ["GPUPOOL_JOB"])
    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.answer(f"{len(self.rfile.read(size))} {self.headers.get('Authorization')}")
    def answer(self, text):
        self.send_response(200)
        self.send_header("Set-Cookie", "session=stolen")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
#: A server that echoes the texts of a WebSocket, and streams a second event once it is told to.
LIVE = """
import base64, hashlib, http.server, sys, threading
go = threading.Event()
never = threading.Event()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            return self.echo()
        if self.path == "/go":
            go.set()
        self.send_response(200)
        if self.path not in ("/events", "/endless"):
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
            return
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(b"data: first\\n\\n")
        (go if self.path == "/events" else never).wait()
        self.chunk(b"data: second\\n\\n")
        self.chunk(b"")
    def chunk(self, data):
        self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(data), data))
        self.wfile.flush()
    def echo(self):
        guid = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        digest = hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + guid).digest()
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            size = head[1] & 127
            mask = self.rfile.read(4)
            text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(size)))
            self.wfile.write(bytes([head[0], size]) + text)
            if head[0] & 15 == 8:
                return
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
RULE = ["--min", "1", "--max", "3", "--target", "2", "--check-path", "/health"]
TIMES = ["--check-every", "1s", "--down-after", "4s"]


class Callers:
    """Threads that ask a service again and again, with a token over TCP."""

    def __init__(self, address: str, token: str, count: int) -> None:
        self.answers = Counter[tuple[int, str]]()
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(count)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str, Any]:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            connection.request(method, path, body, self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def _call(self) -> None:
        while not self._stop.is_set():
            status, text, _ = self.ask("GET", "/services/web/a?b=c")
            with self._lock:
                self.answers[status, text] += 1


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{claim_port()}"


@pytest.fixture
def pool(tmp_path: Path, address: str) -> Iterator[RealPool]:
    made = RealPool(tmp_path / "pool", "1xL40S")
    made.up("--sim", made.sim, "--listen", address)
    try:
        yield made
    finally:
        made.do("down", "--purge", "--yes", "--grace", "1s")


def test_a_service_follows_the_load_and_fails_no_request(
    pool: RealPool, address: str, tmp_path: Path
) -> None:
    program = tmp_path / "serve.py"
    program.write_text(SERVE)
    job = ["--gpu", "0.2", "--", sys.executable, str(program), "{port}"]
    pool.do("service", "create", "web", *RULE, *TIMES, "--", *job)
    token = pool.do("token", "create", "--scope", "run").strip()
    with Callers(address, token, 6) as callers:
        pool.until(lambda: pool.json("service", "show", "web")["ready"] == 3, "three replicas")
    pool.until(lambda: pool.json("service", "show", "web")["ready"] == 1, "one replica again")
    assert {status for status, _ in callers.answers} == {200}
    assert len(callers.answers) == 3
    status, text, headers = callers.ask("POST", "/services/web/up", b"x" * 3_000_000)
    assert (status, text) == (200, "3000000 None")
    assert headers["Set-Cookie"] is None
    assert headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    first = pool.json("service", "show", "web")
    (job_id,) = [one["job"] for one in first["replicas"] if one["state"] == "ready"]
    with Callers(address, token, 2) as others:
        os.kill(find_server(str(program)), signal.SIGKILL)
        pool.until(lambda: find_ready(pool) not in ([job_id], []), "another replica")
    assert {status for status, _ in others.answers} == {200}
    stranger = Callers(address, "gpt_no_such_token", 1)
    assert stranger.ask("GET", "/services/web/")[0] == 401
    pool.do("service", "delete", "web", "--yes")
    pool.until(lambda: pool.json("service", "list") == [], "its removal")
    assert callers.ask("GET", "/services/web/")[0] == 404
    assert pool.held_milli() == 0


def find_ready(pool: RealPool) -> list[str]:
    replicas = pool.json("service", "show", "web")["replicas"]
    return [one["job"] for one in replicas if one["state"] == "ready"]


def find_server(program: str) -> int:
    """Return the process of the one replica."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == program.encode():
                return int(place.name)
    raise AssertionError(f"no process runs {program}")


class LiveSocket:
    """A WebSocket of a service, with a token over TCP."""

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._protocol = Connection(ConnectionType.CLIENT)
        head = (
            f"GET /services/live/ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._socket.recv(1)
        assert answer.startswith(b"HTTP/1.1 101 "), answer

    def echo(self, text: str) -> None:
        self._socket.sendall(self._protocol.send(TextMessage(data=text)))
        event = self._receive()
        assert isinstance(event, TextMessage)
        assert event.data == text

    def expect_close(self, code: int) -> None:
        event = self._receive()
        assert isinstance(event, CloseConnection)
        assert event.code == code
        self._socket.close()

    def _receive(self) -> Event:
        while True:
            for event in self._protocol.events():
                return event
            data = self._socket.recv(65536)
            assert data, "the connection ended without a close frame"
            self._protocol.receive_data(data)


def test_a_service_carries_web_sockets_and_streams_until_its_replica_ends(
    pool: RealPool, address: str, tmp_path: Path
) -> None:
    program = tmp_path / "live.py"
    program.write_text(LIVE)
    job = ["--gpu", "0.2", "--", sys.executable, str(program), "{port}"]
    pool.do("service", "create", "live", "--drain-within", "2s", "--", *job)
    token = pool.do("token", "create", "--scope", "run", "--label", "kept").strip()
    other = pool.do("token", "create", "--scope", "run", "--label", "ended").strip()
    kept = LiveSocket(address, token)
    ended = LiveSocket(address, other)
    kept.echo("hello")
    ended.echo("hello")
    assert [one["requests"] for one in pool.json("service", "show", "live")["replicas"]] == [2]
    stream = http.client.HTTPConnection(address, timeout=60)
    stream.request("GET", "/services/live/events", headers={"Authorization": f"Bearer {token}"})
    answer = stream.getresponse()
    assert answer.readline() == b"data: first\n"
    assert Callers(address, token, 1).ask("GET", "/services/live/go")[1] == "ok"
    assert answer.read() == b"\ndata: second\n\n"
    stream.close()
    endless = http.client.HTTPConnection(address, timeout=60)
    endless.request("GET", "/services/live/endless", headers={"Authorization": f"Bearer {other}"})
    broken = endless.getresponse()
    assert broken.readline() == b"data: first\n"
    (revoked,) = [one["id"] for one in pool.json("token", "list") if one["label"] == "ended"]
    pool.do("token", "revoke", revoked)
    ended.expect_close(1008)
    with pytest.raises(http.client.IncompleteRead):
        broken.read()
    kept.echo("still open")
    recent = pool.json("service", "show", "live")["recent"]
    assert (recent["requests"], recent["errors"]) == (5, 0)
    pool.do("service", "delete", "live", "--yes")
    kept.echo("while it drains")
    kept.expect_close(1001)
    pool.until(lambda: pool.json("service", "list") == [], "its removal")
    assert pool.held_milli() == 0
