"""Runs the processes that allocations need beside their jobs, such as MPS daemons.

Each runs under a supervisor of its own in `helpers/<name>`, so it survives agent and server. A file
`users/<allocation>` in that directory says which allocation needs it; allocations that name the
same helper share it, and it ends with the last of them. Must not know what a helper is for.
"""

from __future__ import annotations

import hashlib
import select
import shutil
import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from gpupool.agent.supervisor.client import (
    ConnectionLost,
    FailedToStart,
    JobSpec,
    JobState,
    NotRunning,
    RepeatedStart,
    SupervisorConflict,
    SupervisorConnection,
    SupervisorError,
    inspect_job,
    reap_orphans,
    start_supervisor,
    write_spec,
)
from gpupool.agent.supervisor.job_state import await_unsupervised
from gpupool.base.durable import make_directory_durably
from gpupool.mechanisms.contract import HelperProcess

#: Seconds between SIGTERM and SIGKILL.
GRACE_SECONDS: Final = 5
#: Seconds after SIGKILL until a helper counts as stuck in the kernel.
STUCK_SECONDS: Final = 5.0
_LOG_BYTES: Final = 1 << 20


class HelperProcesses:
    """The helpers of one agent. Each call runs under the lock of its allocation's job."""

    def __init__(
        self, root: Path, owner_uid: int, find_cgroups: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._root = root
        self._owner_uid = owner_uid
        self._find_cgroups = find_cgroups
        self._mark = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:8]
        # An allocation must not begin to use a helper while its last user ends it.
        self._lock = threading.RLock()

    def start(self, allocation: str, helpers: Iterable[HelperProcess]) -> None:
        """Start what an allocation needs and what does not run yet. Idempotent.

        A helper that has ended is restarted, unless it says that it must not be. Blocks for some
        milliseconds a helper.

        Raises:
            SupervisorError: a helper cannot be started or has ended; the message says why.
        """
        for helper in helpers:
            with self._lock:
                self._start_one(allocation, helper)

    def _start_one(self, allocation: str, helper: HelperProcess) -> None:
        directory = self._locate(helper.name)
        make_directory_durably(directory / "users", mode=0o711)
        (directory / "users" / allocation).touch()
        if inspect_job(directory).state in (JobState.ENDED, JobState.DIED):
            if not helper.restarts:
                raise SupervisorError(f"helper {helper.name} ended before the job could start")
            reap_orphans(directory)
            await_unsupervised(directory, STUCK_SECONDS)
            _clear_run(directory)
        if inspect_job(directory).state is JobState.NOT_STARTED:
            write_spec(directory, self._make_spec(helper))
            _start_once(directory, helper.name)

    def release(self, allocation: str) -> None:
        """End the helpers that only this allocation needs. Idempotent.

        Blocks until they have ended, for at most `GRACE_SECONDS` + `STUCK_SECONDS` each.

        Raises:
            SupervisorError: a helper does not end; the allocation still needs it then.
        """
        for directory in self._list_directories():
            if (directory / "users" / allocation).exists():
                with self._lock:
                    _release_one(directory, allocation)

    def release_unknown(self, allocations: Collection[str]) -> None:
        """Release the helpers of all allocations but these. Call it once, at the agent's start."""
        for directory in self._list_directories():
            for user in _list_users(directory):
                if user not in allocations:
                    self.release(user)
            _remove_unused(directory)

    def is_running(self, name: str) -> bool:
        """Whether a helper runs."""
        return inspect_job(self._locate(name)).state is JobState.RUNNING

    def list_names(self) -> list[str]:
        """List the helpers that some allocation needs, or that have not ended yet."""
        return [directory.name for directory in self._list_directories()]

    def _make_spec(self, helper: HelperProcess) -> JobSpec:
        return JobSpec(
            # Orphans are found by it in all processes: other pools have helpers of that name too.
            job_id=f"helper-{self._mark}-{helper.name}",
            arguments=helper.arguments,
            directory="/",
            environment=dict(helper.environment),
            uid=helper.uid,
            gid=helper.gid,
            log_max_bytes=_LOG_BYTES,
            log_files=2,
            grace_seconds=GRACE_SECONDS,
            cgroups=self._find_cgroups(f"helper-{helper.name}"),
            owner_uid=self._owner_uid,
            network_namespace=helper.network_namespace,
        )

    def _locate(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name or "\0" in name:
            raise ValueError(f"not a helper's name: {name!r}")
        return self._root / name

    def _list_directories(self) -> list[Path]:
        return sorted(self._root.iterdir()) if self._root.is_dir() else []


def _start_once(directory: Path, name: str) -> None:
    try:
        start_supervisor(directory)
    except (RepeatedStart, SupervisorConflict):
        return
    except FailedToStart as failure:
        raise SupervisorError(f"helper {name} cannot start: {failure}") from failure


def _stop(directory: Path) -> None:
    try:
        with SupervisorConnection(directory) as connection:
            connection.subscribe()
            connection.stop(GRACE_SECONDS)
            # The end may have come with the answer.
            if connection.read_event() is None:
                select.select([connection], [], [], GRACE_SECONDS + STUCK_SECONDS)
    except (NotRunning, ConnectionLost):
        # It ended by itself, which the look below confirms.
        pass
    if inspect_job(directory).state is JobState.RUNNING:
        raise SupervisorError(
            f"helper {directory.name} did not end within {GRACE_SECONDS + STUCK_SECONDS:g} seconds"
        )
    reap_orphans(directory)


def _release_one(directory: Path, allocation: str) -> None:
    if _list_users(directory) == [allocation]:
        _stop(directory)
        # The user's file goes last: after a kill here the helper is released again.
        for entry in directory.iterdir():
            if entry.name != "users":
                entry.unlink()
    (directory / "users" / allocation).unlink(missing_ok=True)
    _remove_unused(directory)


def _list_users(directory: Path) -> list[str]:
    users = directory / "users"
    return sorted(entry.name for entry in users.iterdir()) if users.is_dir() else []


def _clear_run(directory: Path) -> None:
    """Remove the records of a run that is over, but not its log."""
    for name in ("started", "exit", "exit.tmp", "sock", "spec"):
        (directory / name).unlink(missing_ok=True)


def _remove_unused(directory: Path) -> None:
    """Remove a directory that no allocation uses and that no supervisor has."""
    if not _list_users(directory) and inspect_job(directory).state is not JobState.RUNNING:
        shutil.rmtree(directory, ignore_errors=True)
