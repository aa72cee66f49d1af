"""What a pool runs short of for a moment: processor time (SIGSTOP), room on its disk, file
descriptors.

Each is a context manager that takes it away from outside, as an operator's mistake or a neighbour
would, and gives it back at the end.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.pool import FaultPool

DISK_MIB = 384
"""Of the file system under a state directory: room for the jobs of a thousand kills."""


@contextlib.contextmanager
def own_disk(point: Path) -> Iterator[Path]:
    """A small file system for one state directory; needs root."""
    point.mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=755", "tmpfs", str(point)],
        check=True,
    )
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    """A process that is there and does nothing, as on a machine that swaps or a laptop that
    slept."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def full_disk(state: Path) -> Iterator[None]:
    """Not a byte is left beside a state directory, which must have a file system of its own."""
    if not state.parent.is_mount():
        raise ValueError(
            f"{state.parent} is no file system of its own: filling it would fill the machine's disk"
        )
    filler = state.parent / "filler"
    try:
        with open(filler, "wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(b"\0" * size):
                        continue
        yield
    finally:
        filler.unlink(missing_ok=True)


@contextlib.contextmanager
def no_descriptors(pid: int) -> Iterator[None]:
    """A process that can open no file, socket or pipe more."""
    try:
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), hard))
    except (ProcessLookupError, FileNotFoundError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def shortage(
    what: str, pool: FaultPool, choose: Callable[[list[int]], int]
) -> contextlib.AbstractContextManager[None]:
    """The shortage of that name; `choose` says of which process, where the agent runs apart."""
    if what == "disk":
        return full_disk(pool.paths.root)
    pids = [pid for pid in {pool.server_pid(), pool.agent_pid()} if pid is not None]
    if not pids:
        return contextlib.nullcontext()
    return {"pause": paused, "files": no_descriptors}[what](choose(sorted(pids)))
