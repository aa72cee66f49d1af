"""What a replica's answer says of its health."""

from __future__ import annotations

import pytest

from gpupool.serving.checks import read_health


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"HTTP/1.1 200 OK\r", ""),
        (b"HTTP/1.0 204\r", ""),
        (b"HTTP/1.1 302 Found\r", ""),
        (b"HTTP/1.1 400 Bad\r", "/health answered 400, expected 200 to 399"),
        (b"HTTP/1.1 503 Busy\r", "/health answered 503, expected 200 to 399"),
        (b"", "its answer to /health is no HTTP/1.1"),
        (b"SSH-2.0-OpenSSH\r", "its answer to /health is no HTTP/1.1"),
        (b"HTTP/1.1 many\r", "its answer to /health is no HTTP/1.1"),
    ],
)
def test_read_health_judges_the_status(line: bytes, fault: str) -> None:
    assert read_health(line, "/health") == fault
