"""Where a job stands, by its directory alone: lock, marker and exit record, in the order in which they can change.

Must not speak with a supervisor: this works for jobs of any version, alive or long over.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from gpupool.agent.job_record import ExitRecord, StartRecord, read_exit, read_started


class SupervisorError(Exception):
    """A job's supervisor could not do what was asked."""


class JobState(enum.Enum):
    NOT_STARTED = "not_started"
    RUNNING = "running"
    ENDED = "ended"
    DIED = "died"


@dataclass(frozen=True)
class JobStatus:
    """Where a job stands, by its directory alone. RUNNING includes waiting for somebody to attach, and ending.

    DIED: it was started, no supervisor holds it and there is no exit record; call `orphans.reap_orphans`.
    """

    state: JobState
    started: StartRecord | None
    exit: ExitRecord | None


def is_supervised(job_dir: Path) -> bool:
    """Whether a supervisor holds the job's lock. Looks without taking it, so it never gets into a start's way."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(job_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
        try:
            wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
        finally:
            os.close(descriptor)
        return bool(struct.unpack("hhqqi4x", found)[0] != fcntl.F_UNLCK)
    return False


def inspect(job_dir: Path) -> JobStatus:
    """Where the job stands. Never blocks and changes nothing."""
    ended = read_exit(job_dir)
    held = ended is None and is_supervised(job_dir)
    if ended is None and not held:
        ended = read_exit(job_dir)  # it may have ended between the two looks
    started = read_started(job_dir)
    if ended is not None:
        state = JobState.ENDED
    elif held:
        state = JobState.RUNNING
    else:
        state = JobState.DIED if (job_dir / "started").exists() else JobState.NOT_STARTED
    return JobStatus(state, started, ended)
