"""Stopping every process of a job, so that it keeps what it holds and does nothing more."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpupool.agent.usage import read_processes, trees
from gpupool.probes.contract import HeldUp, Probe

SETTLE_SECONDS: Final = 5.0
"""A process that a stop has not reached by then waits for a device in the kernel, where it forks nothing."""
SETTLE_PAUSE_SECONDS: Final = 0.001

log = logging.getLogger(__name__)


def freeze_job(supervisor_pid: int, probes: Iterable[Probe]) -> None:
    """Stop every process below a supervisor, and let none of them keep a card from others. Idempotent."""
    stopped = freeze(supervisor_pid)
    for probe in probes:
        if isinstance(probe, HeldUp):
            probe.let_out(stopped)


def freeze(supervisor_pid: int) -> frozenset[int]:
    """Stop every process below a supervisor, also those that are forked meanwhile; which were stopped."""
    stopped: set[int] = set()
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        # A process that was in the middle of a fork when the signal came stops behind it: its child shows only then.
        settled = all(map(_stands_still, stopped)) or time.monotonic() >= deadline
        tree = trees(read_processes(), [supervisor_pid]).get(supervisor_pid)
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


def _stands_still(pid: int) -> bool:
    """Stopped, or no process any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in "TtZX"
