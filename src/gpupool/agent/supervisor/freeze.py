"""Stops every process of a job: the job keeps its memory and does nothing more."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpupool.agent.monitoring.usage import read_processes, sum_process_trees

if TYPE_CHECKING:
    from gpupool.probes.contract import Probe

#: Seconds after which a process that is not stopped waits for a device in the kernel, where it
#: cannot fork.
SETTLE_SECONDS: Final = 5.0
SETTLE_PAUSE_SECONDS: Final = 0.001

log = logging.getLogger(__name__)


def freeze_job(supervisor_pid: int, probes: Iterable[Probe]) -> None:
    """Stop every process below a supervisor, without blocking the card for other jobs.

    Idempotent; blocks for up to `SETTLE_SECONDS`.
    """
    # Not at the top: a step that suspends a job imports this module, and its start is waited for.
    from gpupool.probes.contract import LockReleaseProbe

    stopped = stop_processes(supervisor_pid)
    for probe in probes:
        if isinstance(probe, LockReleaseProbe):
            probe.release_lock(stopped)


def stop_processes(supervisor_pid: int) -> frozenset[int]:
    """Stop every process below a supervisor, also those that are forked meanwhile.

    Returns:
        The processes that were stopped. Blocks for up to `SETTLE_SECONDS`.
    """
    stopped: set[int] = set()
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        # A process that forked when the signal came stops after the fork; its child shows only
        # then.
        settled = all(map(is_process_stopped, stopped)) or time.monotonic() >= deadline
        tree = sum_process_trees(read_processes(), [supervisor_pid]).get(supervisor_pid)
        fresh = (tree.pids if tree else frozenset()) - stopped
        if not fresh and settled:
            return frozenset(stopped)
        if not fresh:
            time.sleep(SETTLE_PAUSE_SECONDS)
        for pid in fresh:
            try:
                os.kill(pid, signal.SIGSTOP)
            except (ProcessLookupError, PermissionError) as error:
                log.info("process %d could not be stopped: %s", pid, error)
        stopped |= fresh


def is_process_stopped(pid: int) -> bool:
    """Whether a process is stopped or has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in "TtZX"
