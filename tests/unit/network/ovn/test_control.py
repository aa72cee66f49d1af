"""Commands to daemons of OVN: answered, refused, and never waited for without end."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.network.ovn.control import ask_daemon


@pytest.fixture
def path() -> Iterator[Path]:
    # Sockets have 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="gpo-") as directory:
        yield Path(directory) / "daemon.ctl"


@pytest.fixture
def listener(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(str(path))
        made.listen()
        yield made


def answer_once(listener: socket.socket, fields: dict[str, object]) -> threading.Thread:
    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            request = json.loads(peer.recv(4096))
            assert (request["method"], request["params"]) == ("cluster/status", ["OVN_Northbound"])
            peer.sendall(json.dumps({"id": request["id"], **fields}).encode())
            peer.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"result": " in charge\n", "error": None}, "in charge"),
        ({"result": None, "error": "no such database"}, ""),
    ],
)
def test_an_answer_is_its_text_and_a_refusal_is_empty(
    path: Path, listener: socket.socket, fields: dict[str, object], text: str
) -> None:
    thread = answer_once(listener, fields)
    assert ask_daemon(path, "cluster/status", ["OVN_Northbound"]) == text
    thread.join()


def test_a_daemon_that_takes_a_command_and_answers_none_is_not_waited_for(
    path: Path, listener: socket.socket
) -> None:
    assert ask_daemon(path, "connection-status", seconds=0.05) == ""


def test_a_daemon_that_does_not_listen_answers_nothing(path: Path) -> None:
    assert ask_daemon(path, "version") == ""
