"""What a probe of a published port says, and its URL."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.cli.network.expose import build_url, probe_outside


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = {"busy.example": 503, "none.example": 404}.get(self.headers["Host"], 200)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("host", "text", "is_answered"),
    [
        (None, "HTTP 200", True),
        ("none.example", "HTTP 404", True),
        ("busy.example", "HTTP 503", False),
    ],
)
def test_a_job_answers_unless_the_proxy_does(
    port: int, host: str | None, text: str, is_answered: bool
) -> None:
    probe = probe_outside("127.0.0.1", port, is_http=True, host=host)
    assert probe["text"].startswith(text)
    assert probe["is_answered"] is is_answered


def test_tcp_answers_by_a_connection(port: int) -> None:
    assert probe_outside("127.0.0.1", port, is_http=False, host=None)["is_answered"] is True
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    probe = probe_outside("127.0.0.1", closed, is_http=False, host=None)
    assert probe["is_answered"] is False
    assert "does not answer: " in probe["text"]


def test_a_url_is_there_for_clients_outside_alone() -> None:
    made = {"machine_port": 30000, "is_http": True, "host": None}
    assert build_url(made, "192.0.2.7") == "http://192.0.2.7:30000"
    assert build_url({**made, "host": "a.example"}, "192.0.2.7") == "http://a.example:30000"
    assert build_url({**made, "is_http": False}, "192.0.2.7") == "tcp://192.0.2.7:30000"
    assert build_url({**made, "machine_port": None}, "192.0.2.7") is None
