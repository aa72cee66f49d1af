"""Finds the state of a job by its directory alone: its lock, start record and exit record.

Must not speak with a supervisor: this works for jobs of every version, alive or long over.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from gpupool.agent.supervisor.job_record import ExitRecord, StartRecord, read_exit, read_started


class SupervisorError(Exception):
    """A job's supervisor could not do what was asked."""


class JobState(enum.Enum):
    """The state of a job as its directory shows it."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    ENDED = "ended"
    DIED = "died"


@dataclass(frozen=True)
class JobStatus:
    """The state of a job and its records.

    RUNNING includes a job that waits for a client to attach, and one that is ending. DIED: the job
    was started, no supervisor has it and there is no exit record; call
    `orphan_processes.reap_orphans`.
    """

    state: JobState
    started: StartRecord | None
    exit: ExitRecord | None


def is_supervised(job_dir: Path) -> bool:
    """Whether a supervisor has the job's lock. Does not take the lock, so no start is disturbed."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(job_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
        try:
            wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
        finally:
            os.close(descriptor)
        return bool(struct.unpack("hhqqi4x", found)[0] != fcntl.F_UNLCK)
    return False


def await_unsupervised(job_dir: Path, seconds: float) -> bool:
    """Block until no supervisor has the job's lock; false when the time is over before.

    A supervisor goes on for a moment after its exit record: it removes its socket, which must not
    be that of a run that was begun in the same directory meanwhile.
    """
    deadline = time.monotonic() + seconds
    while is_supervised(job_dir):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
    return True


def inspect_job(job_dir: Path) -> JobStatus:
    """Find the state of a job. Never blocks and changes nothing."""
    ended = read_exit(job_dir)
    has_supervisor = ended is None and is_supervised(job_dir)
    if ended is None and not has_supervisor:
        ended = read_exit(job_dir)  # it may have ended between the two looks
    started = read_started(job_dir)
    if ended is not None:
        state = JobState.ENDED
    elif has_supervisor:
        state = JobState.RUNNING
    else:
        state = JobState.DIED if (job_dir / "started").exists() else JobState.NOT_STARTED
    return JobStatus(state, started, ended)
