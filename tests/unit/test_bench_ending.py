"""A bench that is ended by a signal, or whose parent is killed, runs its `with` blocks first."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised import is_alive, until

REPOSITORY = Path(__file__).parents[2]
#: Holds a file as a bench holds a pool: it is there while the block runs, and its end is slow
#: enough to be met by a second signal.
HOLD = """
import contextlib, os, sys
from pathlib import Path
from bench.ending import unwind_on_signals
unwind_on_signals()
file = Path(sys.argv[1])
@contextlib.contextmanager
def hold():
    try:
        # The test sends its signal as soon as there is a file: the end must be certain by then.
        file.write_text(str(os.getpid()))
        yield
    finally:
        with open(sys.argv[2]) as pipe:
            pipe.read()
        file.unlink()
with hold():
    os.read(int(sys.argv[3]), 1)
"""
RUN = """
import os, sys
from pathlib import Path
from bench.ending import run_child, unwind_on_signals
unwind_on_signals()
sys.exit(run_child(sys.argv[1:], Path.cwd()))
"""


class Bench:
    """A parent and its child, which holds a file; `gate` lets the child's end go on."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "held"
        self.gate = folder / "gate"
        os.mkfifo(self.gate)
        self._never, self._unused = os.pipe()
        hold = [sys.executable, "-c", HOLD, str(self.file), str(self.gate), "0"]
        self.parent = subprocess.Popen(
            [sys.executable, "-c", RUN, *hold],
            cwd=REPOSITORY,
            stdin=self._never,
            start_new_session=True,
        )
        until(lambda: self.file.exists() and self.file.read_text(), "a held file")
        self.child = int(self.file.read_text())

    def open_gate(self) -> None:
        """Once the child waits there, which is when it unwinds."""
        until(self._is_met_at_the_gate, "a child that unwinds")

    def _is_met_at_the_gate(self) -> bool:
        try:
            os.close(os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
            return False
        return True

    def close(self) -> None:
        for pid in (self.child, self.parent.pid):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.parent.wait()
        os.close(self._never)
        os.close(self._unused)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_ends_the_child_and_waits_for_it(
    bench: Bench, number: signal.Signals
) -> None:
    os.kill(bench.parent.pid, number)
    bench.open_gate()
    assert bench.parent.wait(20) == 128 + number
    assert not bench.file.exists()


def test_a_second_signal_does_not_break_off_the_end(bench: Bench) -> None:
    """As a time limit does, which sends to the process group."""
    os.killpg(bench.parent.pid, signal.SIGTERM)
    # The parent has sent another one by now: it waits for the child alone.
    os.kill(bench.child, signal.SIGTERM)
    bench.open_gate()
    assert bench.parent.wait(20) == 128 + signal.SIGTERM
    assert not bench.file.exists()


def test_a_killed_parent_ends_the_child(bench: Bench) -> None:
    bench.parent.kill()
    bench.open_gate()
    until(lambda: not bench.file.exists(), "the end of what the child held")
