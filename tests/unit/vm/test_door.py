"""The door of a guest in a network: opened for one connection, and closed whatever comes of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.base.errors import VmUnreachable
from gpupool.vm.door import connect_guest
from tests.unit.vm.test_qmp import serve

#: As QEMU 7.2 prints a forward.
USERNET = """Hub -1 (door0):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[HOST_FORWARD]  22       127.0.0.1 {port}  169.254.255.15    22     0     0
"""


@contextmanager
def door(folder: Path, port: int) -> Iterator[list[str]]:
    """A QEMU whose forward is that port; yields the lines of its human monitor."""
    lines: list[str] = []

    def answer(request: dict[str, object]) -> bytes:
        given = request.get("arguments")
        line = given["command-line"] if isinstance(given, dict) else ""
        lines.append(line)
        text = USERNET.format(port=port) if line == "info usernet" else ""
        return json.dumps({"return": text}).encode() + b"\n"

    with serve(folder / "control", answer):
        yield lines


@pytest.fixture
def guest() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_the_caller_gets_the_connection_and_the_port_is_closed_again(
    tmp_path: Path, guest: socket.socket
) -> None:
    port = guest.getsockname()[1]
    ours, theirs = socket.socketpair()
    with door(tmp_path, port) as lines, ours:
        command = [sys.executable, "-m", "gpupool.vm.door", str(tmp_path / "control")]
        process = subprocess.Popen(command, stdout=theirs)
        theirs.close()
        peer, _ = guest.accept()
        with peer:
            assert "hostfwd_remove door0 tcp:127.0.0.1:" not in "".join(lines)
            peer.sendall(b"SSH-2.0-x\r\n")
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
            assert process.wait(20) == 0
            with socket.socket(fileno=descriptors[0]) as connection:
                assert connection.recv(20) == b"SSH-2.0-x\r\n"
    assert lines[1:] == [
        "hostfwd_add door0 tcp:127.0.0.1:0-:22",
        "info usernet",
        f"hostfwd_remove door0 tcp:127.0.0.1:{port}",
    ]


def test_a_guest_that_does_not_answer_is_named_and_the_port_is_closed(
    tmp_path: Path, guest: socket.socket
) -> None:
    with door(tmp_path, guest.getsockname()[1]) as lines:
        with pytest.raises(VmUnreachable, match=r"no answer within 0\.1 s"):
            connect_guest(tmp_path / "control", 0.1)
        assert lines[-1].startswith("hostfwd_remove door0")
    # Nothing listens at the port: as for a guest whose server refuses.
    port = guest.getsockname()[1]
    guest.close()
    os.remove(tmp_path / "control")
    with door(tmp_path, port) as lines:
        with pytest.raises(VmUnreachable, match="the SSH server of the guest does not answer"):
            connect_guest(tmp_path / "control")
        assert lines[-1].startswith("hostfwd_remove door0")
