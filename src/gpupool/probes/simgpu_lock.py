"""Keeps stopped processes from holding the lock of a simulated machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gpupool.probes.simgpu import SimulatedMachine

_LONGEST_HOLD_SECONDS: Final = 0.1


def stop_without_lock(machine: SimulatedMachine, stopped: Collection[int]) -> int:
    """Resume a stopped process that holds the machine's lock until it releases the lock.

    The caller has just stopped these processes (SIGSTOP); the resumed one is stopped again. Blocks
    for 0.1 s at most for each.

    Returns:
        How often a process was resumed.
    """
    # On a real card a stopped process blocks no other: only the simulation has this lock.
    times = 0
    for each in stopped:
        _wait_until_stopped(each)
    while (holder := machine.find_lock_holder()) and (pid := _find_process(holder, stopped)):
        os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + _LONGEST_HOLD_SECONDS
        while machine.find_lock_holder() == holder and time.monotonic() < deadline:
            os.sched_yield()
        os.kill(pid, signal.SIGSTOP)
        times += 1
        _wait_until_stopped(pid)
    return times


def _find_process(thread: int, pids: Collection[int]) -> int | None:
    for pid in pids:
        if Path(f"/proc/{pid}/task/{thread}").exists():
            return pid
    return None


def _wait_until_stopped(pid: int) -> None:
    # A signal takes a moment to arrive, in which the process may take the lock.
    deadline = time.monotonic() + _LONGEST_HOLD_SECONDS
    while time.monotonic() < deadline and _read_state(pid) not in ("T", "t", ""):
        os.sched_yield()


def _read_state(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[0]
        )
    except OSError:
        return ""
