"""Ends what a session has started and left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

#: Between two looks at processes that were killed and have not ended.
_PAUSE_SECONDS: Final = 0.02
#: A process that the kernel does not end (it waits for a disk) is left to the job's supervisor.
_MOST_SECONDS: Final = 5.0


def end_descendants() -> None:
    """Kill all descendants of this process, which is their subreaper, and wait for their end."""
    deadline = time.monotonic() + _MOST_SECONDS
    while (found := _list_descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reap_children()
        time.sleep(_PAUSE_SECONDS)


def reap_children() -> None:
    """Reap the children that have ended. Never blocks."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _list_descendants(pid: int) -> list[int]:
    found = list[int]()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *_list_descendants(int(child))]
    return found
