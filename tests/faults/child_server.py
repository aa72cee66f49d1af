"""A server that is a child of its test, and dies of SIGKILL in one of its transactions.

The child builds a pool on a clock of its own. The test is the server that starts afterwards. A fork
costs less than a process of its own by seconds of imports.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

from gpupool.store.faults import Fault


class Kill:
    """Kills the process at a step of the n-th transaction from now on that is about a subject."""

    def __init__(self, step: str, number: int = 1, subject: str | None = None) -> None:
        self._step = step
        self._left = number
        self._subject = subject

    def __call__(self, step: str, subjects: Callable[[], frozenset[str]]) -> None:
        if step != self._step or (self._subject is not None and self._subject not in subjects()):
            return
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def die(story: Callable[[Fault], None], fault: Fault) -> None:
    """Be a server in a child, which dies of the fault that the story arms."""
    child = os.fork()
    if child == 0:
        try:
            story(fault)
        except BaseException:  # noqa: BLE001 - the child has no caller; the test fails of its exit
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the server was not killed"
    assert os.WTERMSIG(status) == signal.SIGKILL
