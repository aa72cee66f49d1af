"""The client of QMP against a server that answers, is silent, lies or goes away."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpupool.base.errors import VmUnreachable
from gpupool.vm.qmp import QmpConnection, power_down

GREETING = {"QMP": {"version": {}, "capabilities": []}}
Answer = Callable[[dict[str, object]], bytes]


@contextmanager
def serve(path: Path, answer: Answer, greeting: bytes | None = None) -> Iterator[list[str]]:
    """Answer one client at a time, in a thread; yields the commands that came."""
    commands: list[str] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(path))
    listener.listen()

    def run() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            # A client that gives up closes the connection, which is what some tests are about.
            with client, suppress(ConnectionError):
                serve_client(client)

    def serve_client(client: socket.socket) -> None:
        client.sendall(greeting or json.dumps(GREETING).encode() + b"\r\n")
        with client.makefile("rb") as stream:
            for line in stream:
                request = json.loads(line)
                commands.append(request["execute"])
                answered = answer(request)
                if not answered:
                    return
                client.sendall(answered)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield commands
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


def accept_all(_request: dict[str, object]) -> bytes:
    return b'{"return": {}}\n'


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "qmp"


def test_power_down_agrees_on_capabilities_first(path: Path) -> None:
    with serve(path, accept_all) as commands:
        power_down(path, uid=os.geteuid())
    assert commands == ["qmp_capabilities", "system_powerdown"]


def test_events_before_an_answer_are_passed_over(path: Path) -> None:
    def answer(request: dict[str, object]) -> bytes:
        return b'{"event": "RTC_CHANGE"}\n{"event": "X"}\n{"return": {"status": "running"}}\n'

    with serve(path, answer), QmpConnection(path) as connection:
        assert connection.execute("query-status") == {"status": "running"}


def test_a_path_longer_than_a_socket_address_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    with serve(folder / "qmp", accept_all), QmpConnection(folder / "qmp"):
        assert len(str(folder)) > 108


def test_a_refused_command_says_why(path: Path) -> None:
    def answer(request: dict[str, object]) -> bytes:
        if request["execute"] == "qmp_capabilities":
            return accept_all(request)
        return b'{"error": {"class": "GenericError", "desc": "no such device"}}\n'

    with (
        serve(path, answer),
        QmpConnection(path) as connection,
        pytest.raises(VmUnreachable, match="device_del: no such device"),
    ):
        connection.execute("device_del", id="x")


def test_nothing_is_sent_to_another_account(path: Path) -> None:
    with serve(path, accept_all) as commands, pytest.raises(VmUnreachable, match="account"):
        QmpConnection(path, uid=os.geteuid() + 1)
    assert commands == []


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [(b"{}\n", "no QEMU"), (b"hello\n", "no JSON"), (b"[]\n", "no object")],
)
def test_what_is_no_qemu_is_named(path: Path, greeting: bytes, reason: str) -> None:
    with serve(path, accept_all, greeting), pytest.raises(VmUnreachable, match=reason):
        QmpConnection(path)


def test_a_silent_qemu_is_given_up_after_the_deadline(path: Path) -> None:
    with (
        serve(path, accept_all, greeting=b" "),
        pytest.raises(VmUnreachable, match=r"within 0\.2 s"),
    ):
        QmpConnection(path, seconds=0.2)


def test_an_endless_answer_is_given_up(path: Path) -> None:
    with serve(path, accept_all, greeting=b"x" * (3 << 20)), pytest.raises(VmUnreachable):
        QmpConnection(path)


def test_a_qemu_that_ends_is_no_crash(path: Path) -> None:
    with serve(path, lambda _request: b""), pytest.raises(VmUnreachable):
        QmpConnection(path)


def test_an_absent_socket_names_the_next_command(path: Path) -> None:
    with pytest.raises(VmUnreachable) as caught:
        QmpConnection(path)
    assert "gpupool vm list" in caught.value.hint
