"""The service manager is told once, by its own socket, and jobs do not inherit it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gpupool.delivery.notice import VARIABLE, send_ready, take_notice_address


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_the_manager_is_told_that_the_pool_answers(tmp_path: Path, kind: str) -> None:
    name = str(tmp_path / "notify")
    shown = name if kind == "file" else f"@{name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name if kind == "file" else f"\0{name}")
        environ = {VARIABLE: shown, "PATH": "/bin"}
        address = take_notice_address(environ)
        assert environ == {"PATH": "/bin"}
        send_ready(address)
        assert manager.recv(100).splitlines()[0] == b"READY=1"


def test_without_a_manager_nothing_happens() -> None:
    assert take_notice_address({}) == ""
    send_ready("")
