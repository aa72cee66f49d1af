"""Signals and bytes between our terminal and a job's."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading

import pytest

from gpupool.client.attach_relay import NoRelay, SignalQueue, TerminalRelay


class Lines:
    """What the supervisor would be sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, line: str) -> None:
        self.sent.append(line)


class Presses:
    """Whether each Ctrl-C is the second."""

    def __init__(self, *seconds: bool) -> None:
        self._seconds = list(seconds)

    def is_second(self) -> bool:
        return self._seconds.pop(0)


def test_signal_queue_keeps_the_numbers_and_restores_the_handlers() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    queue = SignalQueue()
    try:
        assert queue.take() == b""
        os.kill(os.getpid(), signal.SIGUSR1)
        select.select([queue.fileno()], [], [])
        os.kill(os.getpid(), signal.SIGHUP)
        assert queue.take() in (
            bytes([signal.SIGUSR1]),
            bytes([signal.SIGUSR1, signal.SIGHUP]),
        )
    finally:
        queue.restore()
    assert signal.getsignal(signal.SIGUSR1) == before
    queue.restore()


def test_signal_queue_leaves_ignored_signals_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    queue = SignalQueue()
    try:
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        queue.restore()
        signal.signal(signal.SIGHUP, before)


def test_signal_queue_outside_the_main_thread_takes_no_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def look() -> None:
        queue = SignalQueue()
        found.append(signal.getsignal(signal.SIGTERM))
        queue.restore()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]


def test_signals_without_a_terminal_are_passed_on_and_ctrl_c_twice_stops() -> None:
    line = Lines()
    presses = Presses(False, True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT, signal.SIGWINCH, signal.SIGINT):
        NoRelay().on_signal(number, line, presses)
    assert line.sent == [
        f"signal {int(signal.SIGINT)}",
        f"signal {int(signal.SIGTERM)}",
        f"signal {int(signal.SIGCONT)}",
        "stop 0",
    ]


def test_ctrl_c_in_a_terminal_never_stops_the_job() -> None:
    line = Lines()
    for _ in range(2):
        TerminalRelay(-1).on_signal(signal.SIGINT, line, Presses())
    assert line.sent == [f"signal {int(signal.SIGINT)}"] * 2


def test_wait_without_a_terminal_returns_the_descriptors_that_are_ready() -> None:
    read, write = os.pipe()
    silent, other = os.pipe()
    os.write(write, b"x")
    assert NoRelay().wait(read, silent) == {read}
    for descriptor in (read, write, silent, other):
        os.close(descriptor)


def test_terminal_relay_shows_what_the_job_wrote_last(capfd: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe2(os.O_NONBLOCK)
    log, written = os.pipe2(os.O_NONBLOCK)
    relay = TerminalRelay(read, written)
    os.write(write, b"last words")
    os.close(write)
    relay.finish()
    os.close(read)
    assert capfd.readouterr().out == "last words"
    assert (os.read(log, 100), os.read(log, 100)) == (b"last words", b""), "kept, and closed"
    os.close(log)


def test_terminal_relay_shows_what_a_log_has_no_room_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.client.attach_relay._LOG_PATIENCE_SECONDS", 0)
    read, write = os.pipe2(os.O_NONBLOCK)
    log, written = os.pipe2(os.O_NONBLOCK)
    room = fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, 4096)
    relay = TerminalRelay(read, written)
    os.write(write, b"x" * (room + 1))
    os.close(write)
    relay.finish()
    os.close(read)
    assert len(capfd.readouterr().out) == room + 1
    assert len(os.read(log, 2 * room)) == room
    os.close(log)
