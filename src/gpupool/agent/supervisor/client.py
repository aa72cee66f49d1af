"""The agent's side of the job supervisor: start a job once, connect to it, read what it left.

One job is one directory. Everything here takes that directory and keeps no memory of its own, so
that a newly started agent can do what the one could that started the job. This module is the face
of the package: it exports what other packages use. Must not know about claims, devices or the
server.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gpupool.agent.supervisor.connection import (
    ConnectionLost,
    ExitEvent,
    LiveStatus,
    NotRunning,
    ProtocolMismatch,
    RequestRefusal,
    SupervisorConnection,
    stop_job,
)
from gpupool.agent.supervisor.job_log import LogChunk, log_end, log_files, read_log
from gpupool.agent.supervisor.job_record import (
    ExitRecord,
    StartRecord,
    read_exit,
    read_started,
)
from gpupool.agent.supervisor.job_spec import (
    BadSpec,
    BindMount,
    JobSpec,
    ResourceLimit,
    read_spec,
    write_spec,
)
from gpupool.agent.supervisor.job_state import (
    JobState,
    JobStatus,
    SupervisorError,
    inspect_job,
    is_supervised,
)
from gpupool.agent.supervisor.orphan_processes import LiveSupervisor, ReapResult, reap_orphans
from gpupool_native import shim_path

__all__ = [
    "BadSpec",
    "BindMount",
    "ConnectionLost",
    "ExitEvent",
    "ExitRecord",
    "FailedToStart",
    "JobSpec",
    "JobState",
    "JobStatus",
    "LiveStatus",
    "LiveSupervisor",
    "LogChunk",
    "NotRunning",
    "ProtocolMismatch",
    "ReapResult",
    "RepeatedStart",
    "RequestRefusal",
    "ResourceLimit",
    "StartRecord",
    "SupervisorConflict",
    "SupervisorConnection",
    "SupervisorError",
    "inspect_job",
    "is_supervised",
    "log_end",
    "log_files",
    "read_exit",
    "read_log",
    "read_spec",
    "read_started",
    "reap_orphans",
    "start_supervisor",
    "stop_job",
    "write_spec",
]


class RepeatedStart(SupervisorError):
    """The command was started before, by this agent or an earlier one; not started again."""


class SupervisorConflict(SupervisorError):
    """A supervisor has this job now."""


class FailedToStart(SupervisorError):
    """The command could not be executed; the job has ended and `record` says why."""

    def __init__(self, message: str, record: ExitRecord | None) -> None:
        super().__init__(message)
        self.record = record


def _raise_refusal(status: int, message: str, job_dir: Path) -> None:
    match status:
        case 0:
            return
        case 10:
            raise BadSpec(message)
        case 11:
            raise RepeatedStart(message)
        case 12:
            raise SupervisorConflict(message)
        case 13:
            raise FailedToStart(message, read_exit(job_dir))
        case _:
            raise SupervisorError(f"the supervisor could not start (status {status}): {message}")


def start_supervisor(job_dir: Path, *, timeout_seconds: float = 60.0) -> JobStatus:
    """Start the job that the directory describes. Idempotent: a job is never started twice.

    Returns when the job runs or, for stdio=attach, when a client can attach. Blocks for a few
    milliseconds. A service manager that runs the agent must not end the agent's whole cgroup with
    it: the supervisors are in it.

    Args:
        job_dir: The job's directory, with the file `spec`.
        timeout_seconds: The longest wait; after it `inspect_job` says what became of the job.

    Raises:
        BadSpec: The supervisor refuses the description.
        RepeatedStart: The job has been started before.
        SupervisorConflict: A supervisor has the job.
        FailedToStart: The command could not be executed.
        SupervisorError: Any other failure of the supervisor.
    """
    try:
        done = subprocess.run(
            [shim_path(), os.path.abspath(job_dir)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(
            f"the supervisor did not answer within {timeout_seconds:g} seconds"
        ) from error
    message = done.stderr.decode("utf-8", "replace").strip().removeprefix("gpupool-shim: ")
    _raise_refusal(done.returncode, message, job_dir)
    return inspect_job(job_dir)
