"""The files that an agent keeps for each job, so that it can be killed at any line and continue.

`jobs/<job>/allocation.json` is written before anything else happens for an allocation. It is
removed when the server has confirmed how the job ended: a directory with the file is unfinished,
one without it is kept for its log. The file, its name and its directory's name are flushed before
the next step: after a power cut the agent reports the end of every job that it had begun. Removals
are not flushed: a checkpoint that comes back is reported and removed once more. The other files of
the directory belong to the supervisor. Must not start or stop anything. The callers are worker
threads: a write blocks for up to three flushes.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.supervisor.job_state import await_unsupervised
from gpupool.agent.supervisor.log_quota import (
    LogLook,
    LogPart,
    choose_excess,
    drop_part,
    measure_logs,
)
from gpupool.agent.supervisor.run_directory import remove_run_directory
from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.base.errors import DamagedRecord, StateNewer
from gpupool.base.files.trees import remove_tree

#: The version of the file's format; a later one raises StateNewer.
VERSION: Final = 1
FILE: Final = "allocation.json"
#: Seconds for which the log of a finished job is kept.
KEEP_SECONDS: Final = 7 * 86400
#: Seconds in which a supervisor has ended after its exit record.
_END_SECONDS: Final = 5.0
#: So many finished jobs keep their logs.
KEEP_JOBS: Final = 1000
#: The first two hold the caller's environment, which may have secrets; a supervisor that was killed
#: leaves the others.
_SPENT_FILES: Final = ("spec", "spec.tmp", "sock", "exit.tmp")
_RUN_FILES: Final = (*_SPENT_FILES, "started", "exit")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """One allocation this node has begun to work on.

    It holds no environment: the server sends that again with the work.
    """

    allocation: str
    generation: int
    job: str
    mechanism: str
    attached: bool
    network_port: str = ""


@dataclass(frozen=True)
class UnfinishedJob:
    """A job directory with a checkpoint; `checkpoint` is None where its file is `damaged`."""

    directory: Path
    checkpoint: Checkpoint | None
    damaged: DamagedRecord | None = None


class JobDirectories:
    """The directories below `jobs/`. Thread-safe."""

    def __init__(self, root: Path, *, shared: bool) -> None:
        """Make the root directory if it is missing.

        Args:
            root: The directory `jobs`.
            shared: Whether clients of other Unix users must reach the sockets in the directories.
        """
        self._root = root
        self._mode = 0o711 if shared else 0o700
        # Held while a finished job's files are removed, and while such a job runs again.
        self._finished = threading.Lock()
        for path in (root.parent, root):
            path.mkdir(mode=self._mode, parents=True, exist_ok=True)
            path.chmod(self._mode)

    def path(self, job: str) -> Path:
        """Return the directory of a job. Raises ValueError for a name that is no plain file name.

        The name comes from outside: it must not lead out of `jobs/`.
        """
        if not job or job.startswith(".") or "/" in job or "\0" in job:
            raise ValueError(f"not a job id: {job!r}")
        return self._root / job

    def write_checkpoint(self, checkpoint: Checkpoint) -> Path:
        """Write what is about to be done. Idempotent; blocks for up to three flushes.

        Returns:
            The job's directory, which is made if it is missing.
        """
        directory = self.path(checkpoint.job)
        with self._finished:
            make_directory_durably(directory, mode=self._mode)
            directory.chmod(self._mode)
            content = json.dumps({"version": VERSION, **asdict(checkpoint)})
            write_durably(directory / FILE, content.encode(), mode=0o644)
        return directory

    def read_checkpoint(self, job: str) -> Checkpoint | None:
        """Read a job's checkpoint; None where the job is finished or was never here.

        Raises:
            DamagedRecord: The file cannot be understood.
            StateNewer: A newer gpupool wrote the file.
        """
        path = self.path(job) / FILE
        try:
            return _read_checkpoint(path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DamagedRecord(
                f"{path} cannot be understood: {problem}",
                hint="the job's processes are ended and the job is reported as lost",
            ) from problem

    def list_unfinished(self) -> Iterator[UnfinishedJob]:
        """List every directory with a checkpoint, and remove the empty ones.

        A directory is empty where the agent was killed between making it and writing into it.
        """
        for directory in sorted(path for path in self._root.iterdir() if path.is_dir()):
            try:
                checkpoint = self.read_checkpoint(directory.name)
            except DamagedRecord as damaged:
                yield UnfinishedJob(directory, None, damaged)
                continue
            if checkpoint is not None:
                yield UnfinishedJob(directory, checkpoint)
            elif not any(entry.name != f"{FILE}.new" for entry in directory.iterdir()):
                remove_tree(directory)

    def clear_earlier_run(self, checkpoint: Checkpoint) -> None:
        """Remove the files of an earlier run of the job, except its log. Idempotent.

        The end of that run has been reported. Nothing is removed where the directory is this
        allocation's own already.
        """
        directory = self.path(checkpoint.job)
        try:
            known = self.read_checkpoint(checkpoint.job)
        except DamagedRecord:
            known = None
        if known is not None and known.allocation == checkpoint.allocation:
            return
        await_unsupervised(directory, _END_SECONDS)
        remove_run_directory(directory)
        # The checkpoint goes first: after a kill here the directory has no allocation.
        for name in (FILE, *_RUN_FILES):
            (directory / name).unlink(missing_ok=True)

    def finish_job(self, job: str) -> None:
        """Remove the checkpoint and every secret of a job; keep its log and records. Idempotent."""
        directory = self.path(job)
        # The checkpoint goes last: after a kill here the job is found and finished again.
        remove_run_directory(directory)
        for name in (*_SPENT_FILES, f"{FILE}.new", FILE):
            (directory / name).unlink(missing_ok=True)

    def remove_job(self, job: str) -> None:
        """Remove the directory of a job of which nothing ran. Idempotent."""
        directory = self.path(job)
        if not directory.is_dir():
            return
        # The checkpoint goes last, as in `finish_job`.
        for entry in directory.iterdir():
            if entry.name == FILE:
                continue
            if entry.is_dir() and not entry.is_symlink():
                remove_tree(entry)
            else:
                entry.unlink()
        (directory / FILE).unlink(missing_ok=True)
        directory.rmdir()

    def remove_old_jobs(
        self, now_seconds: float, *, seconds: float = KEEP_SECONDS, jobs: int = KEEP_JOBS
    ) -> int:
        """Remove finished jobs that are too old or too many. Blocks for one stat a job.

        Args:
            now_seconds: The time now, as `time.time` counts it.
            seconds: How long a finished job is kept.
            jobs: How many finished jobs are kept, the youngest.

        Returns:
            How many jobs were removed.
        """
        by_age: list[tuple[float, Path]] = []
        for path in self._root.iterdir():
            if path.is_dir() and not (path / FILE).exists():
                by_age.append((_read_end_time(path), path))
        by_age.sort(reverse=True)
        removed = 0
        for rank, (ended, path) in enumerate(by_age):
            is_old = rank >= jobs or now_seconds - ended > seconds
            if is_old and self._remove_finished(path):
                removed += 1
        return removed

    def _remove_finished(self, path: Path) -> bool:
        """Remove a finished job; False where it runs again meanwhile, or cannot be removed."""
        with self._finished:
            if (path / FILE).exists():
                return False
            try:
                remove_tree(path)
            except OSError as error:
                log.warning("%s is not removed yet: %s", path, error)
                return False
        return True

    def trim_logs(self, pool_bytes: int, user_bytes: int) -> LogLook:
        """Drop the oldest output above the quotas. Blocks for one stat a segment.

        The segment that a live job writes to stays.

        Args:
            pool_bytes: The quota of all logs together.
            user_bytes: The quota of each Unix account.
        """
        use = measure_logs(self._root, FILE)
        dropped = 0
        for part in choose_excess(use, pool_bytes, user_bytes):
            if self._drop(part):
                dropped += part.size
        largest_user = max(use.by_owner.values(), default=0)
        return LogLook(use.total, largest_user, pool_bytes, user_bytes, dropped)

    def _drop(self, part: LogPart) -> bool:
        """Drop a part; False where the job was removed or has begun to run again meanwhile."""
        with self._finished:
            if not part.directory.is_dir():
                return False
            if not part.is_live and (part.directory / FILE).exists():
                return False
            drop_part(part)
        return True


def _read_checkpoint(path: Path) -> Checkpoint:
    entry = json.loads(path.read_text(encoding="utf-8"))
    version = entry.pop("version")
    if version > VERSION:
        raise StateNewer(
            f"{path} was written by a newer gpupool (version {version})", hint="run that version"
        )
    return Checkpoint(**entry)


def _read_end_time(directory: Path) -> float:
    """Return when a finished job ended, in seconds: its directory last changed then."""
    return directory.stat().st_mtime
