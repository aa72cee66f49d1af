"""A service of real processes: it follows the load, replaces what fails, and fails no request."""

from __future__ import annotations

import http.client
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claim_port

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
