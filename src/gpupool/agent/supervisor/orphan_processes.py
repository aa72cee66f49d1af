"""Ends the processes of a job whose supervisor was killed.

The command itself dies with its supervisor. Processes that it had started may live on in the job's
cgroup or, without one, anywhere; there they are found by the environment that they inherited. Must
not know why the supervisor died.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.supervisor import cgroups
from gpupool.agent.supervisor.job_record import StartRecord, read_started
from gpupool.agent.supervisor.job_spec import BadSpec, JobSpec, read_spec
from gpupool.agent.supervisor.job_state import JobState, SupervisorError, inspect_job
from gpupool.base.units import NANOS_PER_SECOND

VARIABLE: Final = "GPUPOOL_JOB"
#: The column behind the name in /proc/PID/stat; proc(5) counts it as the 22nd.
_START_TIME_COLUMN: Final = 19


class LiveSupervisor(SupervisorError):
    """The job has a supervisor, which ends the job's processes itself."""


@dataclass(frozen=True)
class ReapResult:
    """How many processes were ended, and which are left.

    A process is left that is blocked in the kernel or that the agent has no right to end.
    """

    killed: int
    remaining: tuple[int, ...]


def _is_of_this_boot(started: StartRecord, proc_root: Path) -> bool:
    return (proc_root / "sys/kernel/random/boot_id").read_text().strip() == started.boot_id


def _start_ticks(pid: int, proc_root: Path) -> int:
    # Bytes: the name in it is the user's, and cut after 15 of them.
    text = (proc_root / str(pid) / "stat").read_bytes()
    return int(text.rpartition(b")")[2].split()[_START_TIME_COLUMN])


def _is_of_job(pid: int, spec: JobSpec, started: StartRecord, proc_root: Path) -> bool:
    """Whether a process has the job's variable and user and is not older than the job."""
    uid = os.geteuid() if spec.uid is None else spec.uid
    oldest = started.started_boot_ns * os.sysconf("SC_CLK_TCK") // NANOS_PER_SECOND
    try:
        if (proc_root / str(pid)).stat().st_uid != uid:
            return False
        environment = (proc_root / str(pid) / "environ").read_bytes().split(b"\0")
        return (
            f"{VARIABLE}={spec.job_id}".encode() in environment
            and _start_ticks(pid, proc_root) >= oldest
        )
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False  # gone, or of another user


def _open_processes(
    spec: JobSpec, started: StartRecord, proc_root: Path
) -> Iterator[tuple[int, int]]:
    """List (pid, descriptor) of the job's processes.

    The descriptor is opened first, so that the checks are about that process and not about one that
    got its number meanwhile.
    """
    for name in os.listdir(proc_root):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            descriptor = os.pidfd_open(int(name))
        except OSError:  # gone, or only a thread
            continue
        if _is_of_job(int(name), spec, started, proc_root):
            yield int(name), descriptor
        else:
            os.close(descriptor)


def _kill_by_environment(
    spec: JobSpec, started: StartRecord, deadline: float, proc_root: Path
) -> ReapResult:
    killed: set[int] = set()
    while True:
        found = list(_open_processes(spec, started, proc_root))
        if not found or time.monotonic() >= deadline:
            for _, descriptor in found:
                os.close(descriptor)
            return ReapResult(len(killed), tuple(pid for pid, _ in found))
        for pid, descriptor in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                killed.add(pid)
        _await_ends([descriptor for _, descriptor in found], deadline)


def _await_ends(descriptors: list[int], deadline: float) -> None:
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    left = len(descriptors)
    while left and (seconds := deadline - time.monotonic()) > 0:
        for descriptor, _ in waiting.poll(seconds * 1000):
            waiting.unregister(descriptor)
            left -= 1
    for descriptor in descriptors:
        os.close(descriptor)


def _kill_in_cgroups(spec: JobSpec, timeout_seconds: float) -> ReapResult:
    before: set[int] = set()
    for path in spec.cgroups:
        before.update(cgroups.list_all_members(Path(path)))
    remaining = cgroups.kill_members(spec.cgroups, timeout_seconds=timeout_seconds)
    cgroups.remove_groups(spec.cgroups)
    return ReapResult(len(before - set(remaining)), remaining)


def remove_cgroups(job_dir: Path, *, timeout_seconds: float = 10.0) -> None:
    """Remove the cgroups of a job whose supervisor was killed before the command began.

    Call it for a job that no supervisor has. Idempotent; does nothing where the description is gone
    or unreadable, and for a copy of another pool's record.
    """
    started = read_started(job_dir)
    if started is not None and not started.is_original:
        return
    try:
        spec = read_spec(job_dir)
    except (FileNotFoundError, BadSpec):
        return
    if any(Path(path).is_dir() for path in spec.cgroups):
        _kill_in_cgroups(spec, timeout_seconds)


def reap_orphans(
    job_dir: Path, *, timeout_seconds: float = 10.0, proc_root: Path = Path("/proc")
) -> ReapResult:
    """End the processes that a job left behind, and remove its cgroups. Idempotent.

    Blocks until they are gone, for at most `timeout_seconds`. A copy of another pool's record ends
    nothing.

    Raises:
        LiveSupervisor: The job has a supervisor.
    """
    status = inspect_job(job_dir)
    if status.state is JobState.RUNNING:
        raise LiveSupervisor(f"{job_dir} has a supervisor")
    if status.state is JobState.NOT_STARTED:
        return ReapResult(0, ())
    try:
        spec = read_spec(job_dir)
    except FileNotFoundError:  # removed with the last trace of the job, once its end was told
        return ReapResult(0, ())
    started = read_started(job_dir)
    if started is not None and not started.is_original:
        return ReapResult(0, ())  # a copy of the state directory: the job is another pool's
    if spec.cgroups:
        return _kill_in_cgroups(spec, timeout_seconds)
    if started is None or not _is_of_this_boot(started, proc_root):
        return ReapResult(0, ())
    return _kill_by_environment(spec, started, time.monotonic() + timeout_seconds, proc_root)
