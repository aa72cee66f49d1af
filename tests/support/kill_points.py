"""Ends a process at a chosen change, as a kill or a power button would."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path

#: Exit code of a process that was ended at a change.
KILLED = 77
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}


class KillPoint:
    """Counts changes and ends this process before the one with that number, from 0."""

    def __init__(self, number: int) -> None:
        self._left = number

    def pass_change(self) -> None:
        """End the process here, without any clean-up, or count one change less."""
        if self._left == 0:
            os._exit(KILLED)
        self._left -= 1


def run_killed(
    number: int,
    call: Callable[[], object],
    *,
    pass_change: Callable[[], None] | None = None,
    below: Path | None = None,
    refusals: Collection[type[Exception]] = (),
) -> bool:
    """Run `call` in a forked child that ends at its change to the file system with that number.

    Args:
        number: from 0; a call with fewer changes comes to its end.
        pass_change: counts a change in the child; by default a `KillPoint` of that number.
        below: changes elsewhere are not counted.
        refusals: errors with which a call may end.

    Returns:
        Whether it was killed.
    """
    child = os.fork()
    if child == 0:
        _run_child(call, pass_change or KillPoint(number).pass_change, below, refusals)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), "the call failed on its own"
    return status == KILLED


def _run_child(
    call: Callable[[], object],
    pass_change: Callable[[], None],
    below: Path | None,
    refusals: Collection[type[Exception]],
) -> None:
    start = "" if below is None else str(below)

    def count_change(event: str, arguments: tuple[object, ...]) -> None:
        is_change = event in _CHANGES or (event == "open" and _is_for_writing(arguments))
        if is_change and str(arguments[0]).startswith(start):
            pass_change()

    sys.addaudithook(count_change)
    # An error must not leave the child running the rest of the tests.
    code = 1
    try:
        call()
        code = 0
    except tuple(refusals):
        code = 0
    except BaseException:  # noqa: BLE001  printed, and the exit code says it
        traceback.print_exc()
    finally:
        os._exit(code)


def _is_for_writing(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
