"""Ends a bench so that its `with` blocks run: the pools that it started end with it.

The default action of SIGTERM ends a process between two instructions, and a killed parent leaves its
child. Both left pools with their servers behind when a bench ran into a time limit.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tests.support.processes import die_with_owner

#: Exit status of a process that a signal has ended, as shells give it.
_SIGNALLED = 128
#: Signals by which people and time limits end a bench.
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def unwind_on_signals() -> None:
    """Let the first signal that ends this process raise SystemExit, and ignore later ones."""
    for number in _ENDING:
        signal.signal(number, _unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    # A time limit sends to the whole process group, and the parent sends once more: a second
    # exception would break off the end of the pool.
    for other in _ENDING:
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(_SIGNALLED + number)


def run_child(command: Sequence[str], directory: Path) -> int:
    """Run a command and return its status. It gets SIGTERM where this process ends before it."""
    with subprocess.Popen(
        command, cwd=directory, preexec_fn=die_with_owner(signal.SIGTERM)
    ) as child:
        try:
            return child.wait()
        except BaseException:
            # The end of the `with` block waits for it: its pools end first.
            child.terminate()
            raise
