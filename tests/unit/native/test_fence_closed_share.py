"""A closed share: calls of the driver wait before they enter it, ring, and go on when it is open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from tests.support.fenced_card import Arbiter, Card, Share
from tests.support.supervised import until

PROGRAM = Path(__file__).parents[2] / "support" / "asking_program.py"


class AskingProgram:
    """A program that makes one call of the driver for each line it is sent, and answers."""

    def __init__(self, share: Share) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM],
            env=share.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def ask(self, call: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{call}\n")

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def is_waiting(self) -> bool:
        """Whether its only thread sleeps in futex(2): while it waits for a line, it is in read(2)."""
        call = Path(f"/proc/{self.process.pid}/syscall").read_text().split()[0]
        return call == {"x86_64": "202", "aarch64": "98"}[os.uname().machine]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    running = Arbiter()
    yield running
    if running.process.poll() is None:
        assert running.close() == 0


@pytest.fixture
def share(tmp_path: Path, arbiter: Arbiter) -> Share:
    made = Card(tmp_path).share("a", 500)
    arbiter.add(made)
    return made


@pytest.fixture
def program(share: Share) -> Iterator[AskingProgram]:
    running = AskingProgram(share)
    assert running.read() == "ready"
    yield running
    running.end()


def close(share: Share) -> None:
    regions.write_closed(share.base / regions.LIMITS_FILE, closed=True)


def open_again(share: Share, arbiter: Arbiter | None) -> None:
    regions.write_closed(share.base / regions.LIMITS_FILE, closed=False)
    if arbiter is not None:
        arbiter.ask("changed", share.name)


@pytest.mark.parametrize("call", ["copy", "allocate", "free", "query", "context"])
def test_the_first_call_rings_and_waits_until_the_share_is_open(
    share: Share, arbiter: Arbiter, program: AskingProgram, call: str
) -> None:
    close(share)
    program.ask(call)
    event = arbiter.await_event(share.name, "wake")
    assert int(event[3]) == program.process.pid
    # It rings before it sleeps.
    until(program.is_waiting, "a call that waits in the fence")
    open_again(share, arbiter)
    assert program.read() == f"{call} 0"


def test_a_share_that_is_opened_wakes_its_programs_at_once(
    share: Share, arbiter: Arbiter, program: AskingProgram
) -> None:
    waits = []
    for _ in range(3):
        close(share)
        program.ask("query")
        arbiter.await_event(share.name, "wake")
        until(program.is_waiting, "a call that waits in the fence")
        began = time.monotonic()
        open_again(share, arbiter)
        assert program.read() == "query 0"
        waits.append(time.monotonic() - began)
    # Far below the second after which it looks by itself; the machine may be busy at one of them.
    assert min(waits) < 0.5


def test_it_rings_again_while_it_waits(
    share: Share, arbiter: Arbiter, program: AskingProgram
) -> None:
    close(share)
    program.ask("copy")
    arbiter.await_event(share.name, "wake")
    arbiter.await_event(share.name, "wake")


def test_without_an_arbiter_it_goes_on_within_seconds(
    share: Share, arbiter: Arbiter, program: AskingProgram
) -> None:
    arbiter.kill()
    close(share)
    program.ask("query")
    until(program.is_waiting, "a call that waits in the fence")
    open_again(share, None)
    assert program.read() == "query 0"


def test_a_program_that_begins_waits_before_it_takes_memory(share: Share, arbiter: Arbiter) -> None:
    close(share)
    late = AskingProgram(share)
    try:
        arbiter.await_event(share.name, "wake")
        assert share.usage().sum_totals()[share.limits.devices[0].uuid].committed_bytes == 0
        open_again(share, arbiter)
        assert late.read() == "ready"
    finally:
        late.end()


def test_a_program_that_is_killed_while_it_waits_leaves_nothing(
    share: Share, arbiter: Arbiter, program: AskingProgram
) -> None:
    close(share)
    program.ask("copy")
    arbiter.await_event(share.name, "wake")
    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(10) == -signal.SIGTERM
    arbiter.await_event(share.name, "cleared", str(program.process.pid))
    assert share.usage().processes == ()
    open_again(share, arbiter)
    other = AskingProgram(share)
    assert other.read() == "ready"
    other.end()


def test_limits_that_are_written_leave_a_closed_share_closed(share: Share) -> None:
    page = share.base / regions.LIMITS_FILE
    close(share)
    share.resize(300)
    assert regions.is_closed(page)
    assert regions.read_limits(page).devices[0].gpu_milli == 300
    open_again(share, None)
    assert not regions.is_closed(page)
