"""The last output of a program waits for a client that reads late, and for no job that has ended."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import socket
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.agent.relay.program_session import ProgramSession
from gpupool.client.streams.frames import EXIT, OUTPUT, SIGNAL, FrameReader, encode_frame
from tests.support.supervised import until

#: More than a socket holds, and less than session, pipe and socket hold: the program ends.
COUNT = 350_000


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    """The command of a job."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def start(command: subprocess.Popen[bytes]) -> tuple[threading.Thread, socket.socket]:
    """Run a program in a session whose client does not read yet."""
    request: dict[str, Any] = {
        "argv": ["head", "-c", str(COUNT), "/dev/zero"],
        "directory": "/",
        "environment": {"PATH": os.defpath},
        "terminal": None,
        # The supervisor would end what is left; without one the session would end our children.
        "cgroups": ["job"],
    }
    client, stream = socket.socketpair()
    client.settimeout(20)
    end = os.pidfd_open(command.pid)

    def serve() -> None:
        with stream:
            ProgramSession(request, stream, end).run()
        os.close(end)

    session = threading.Thread(target=serve)
    session.start()
    until(lambda: count_unread(client) > COUNT // 4, "output")
    return session, client


def count_unread(connection: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]


def test_a_client_that_reads_late_gets_all_and_how_it_ended(
    command: subprocess.Popen[bytes],
) -> None:
    session, client = start(command)
    frames = FrameReader()
    received = list[tuple[int, bytes]]()
    while data := client.recv(65536):
        received += frames.feed(data)
    client.close()
    session.join(20)
    assert sum(len(content) for kind, content in received if kind == OUTPUT) == COUNT
    assert received[-1][0] == EXIT
    assert json.loads(received[-1][1]) == {"code": 0, "signal": None}


def test_a_client_that_never_reads_holds_no_session_of_a_job_that_has_ended(
    command: subprocess.Popen[bytes],
) -> None:
    session, client = start(command)
    command.kill()
    session.join(20)
    assert not session.is_alive()
    client.close()


@pytest.mark.parametrize("number", [signal.SIGRTMIN + 3, 33])
def test_a_client_sends_any_signal_that_the_kernel_has(
    command: subprocess.Popen[bytes], number: int
) -> None:
    """Before, one that Python has no name for ended the session, and the program went on."""
    client, stream = socket.socketpair()
    client.settimeout(20)
    request: dict[str, Any] = {
        "argv": ["sh", "-c", "echo ready; exec sleep 600"],
        "directory": "/",
        "environment": {"PATH": os.defpath},
        "terminal": None,
        "cgroups": ["job"],
    }
    end = os.pidfd_open(command.pid)

    def serve() -> None:
        with stream:
            ProgramSession(request, stream, end).run()
        os.close(end)

    session = threading.Thread(target=serve)
    session.start()
    frames = FrameReader()
    received = list[tuple[int, bytes]]()
    while data := client.recv(65536):
        if not received:
            client.sendall(encode_frame(SIGNAL, bytes([number])))
        received += frames.feed(data)
    client.close()
    session.join(20)
    assert json.loads(received[-1][1]) == {"code": None, "signal": number}
