"""What an agent has on disk of each job, so that it can be killed at any line and know what it was doing.

`jobs/<job>/allocation.json` is written before anything else happens for an allocation and removed when the
server has taken in how it ended: a directory with it is unfinished business, one without it is kept for its
log. It is on disk, with its name and its directory's, before the next step: after a power cut the agent tells the end
of every job that it had begun. Removals are not flushed: a checkpoint that comes back is told and removed once more.
The other files of the directory belong to the supervisor. This module starts and stops nothing. Its callers are worker
threads: a write blocks for up to three flushes.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gpupool.agent.log_quota import LogLook, LogPart, drop, excess, measure
from gpupool.base.durable import make_directory_durably, write_durably
from gpupool.base.errors import RecordDamaged, StateNewer

VERSION = 1
FILE = "allocation.json"
KEEP_SECONDS = 7 * 86400
KEEP_JOBS = 1000
_SPENT_FILES = ("spec", "spec.tmp", "sock", "exit.tmp")
_RUN_FILES = (*_SPENT_FILES, "started", "exit")
"""The first two hold the caller's environment; the others are left by a supervisor that was killed."""


@dataclass(frozen=True)
class Checkpoint:
    """One allocation this node has begun to work on. Holds no environment: that comes with the work again."""

    allocation: str
    generation: int
    job: str
    mechanism: str
    attached: bool


@dataclass(frozen=True)
class Found:
    """A job directory with unfinished business; `checkpoint` is None when its file is `damaged`."""

    directory: Path
    checkpoint: Checkpoint | None
    damaged: RecordDamaged | None = None


class JobDirectories:
    """The directories below `jobs/`. `shared`: other Unix users' clients must reach the sockets in them."""

    def __init__(self, root: Path, *, shared: bool) -> None:
        self._root, self._mode = root, 0o711 if shared else 0o700
        self._finished = threading.Lock()
        """Held while a finished job's files are removed, and while such a job is made a live one again."""
        for path in (root.parent, root):
            path.mkdir(mode=self._mode, parents=True, exist_ok=True)
            path.chmod(self._mode)

    def path(self, job: str) -> Path:
        """Where a job's files lie. The name comes from outside and must be a plain one."""
        if not job or job.startswith(".") or "/" in job or "\0" in job:
            raise ValueError(f"not a job id: {job!r}")
        return self._root / job

    def write(self, checkpoint: Checkpoint) -> Path:
        """Note what is about to be done. The job's directory, made if it was not there."""
        directory = self.path(checkpoint.job)
        with self._finished:
            make_directory_durably(directory, mode=self._mode)
            directory.chmod(self._mode)
            content = json.dumps({"version": VERSION, **asdict(checkpoint)})
            write_durably(directory / FILE, content.encode(), mode=0o644)
        return directory

    def read(self, job: str) -> Checkpoint | None:
        """None when the job has no unfinished business here. Raises RecordDamaged, StateNewer."""
        path = self.path(job) / FILE
        try:
            return _checkpoint(path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise RecordDamaged(
                f"{path} cannot be understood: {problem}",
                hint="the job's processes are ended and the job is reported as lost",
            ) from problem

    def unfinished(self) -> Iterator[Found]:
        """Every directory with a checkpoint; what was made just before a kill and holds nothing is removed."""
        for directory in sorted(path for path in self._root.iterdir() if path.is_dir()):
            try:
                checkpoint = self.read(directory.name)
            except RecordDamaged as damaged:
                yield Found(directory, None, damaged)
                continue
            if checkpoint is not None:
                yield Found(directory, checkpoint)
            elif not any(entry.name != f"{FILE}.new" for entry in directory.iterdir()):
                shutil.rmtree(directory)

    def begin_anew(self, checkpoint: Checkpoint) -> None:
        """Remove what an earlier run of the job left, but for its log, which goes on. The end of that run was told.

        Nothing is touched when the directory is this allocation's own already.
        """
        directory = self.path(checkpoint.job)
        try:
            known = self.read(checkpoint.job)
        except RecordDamaged:
            known = None
        if known is not None and known.allocation == checkpoint.allocation:
            return
        for name in (
            FILE,
            *_RUN_FILES,
        ):  # the checkpoint first: half done, the directory is nobody's until this is done
            (directory / name).unlink(missing_ok=True)

    def finish(self, job: str) -> None:
        """The end is told: forget the allocation and every secret, keep the log and the records."""
        directory = self.path(job)
        # The checkpoint goes last: half done is found and done again.
        for name in (*_SPENT_FILES, f"{FILE}.new", FILE):
            (directory / name).unlink(missing_ok=True)

    def remove(self, job: str) -> None:
        """Nothing of this job ran here: leave nothing. The checkpoint goes last."""
        directory = self.path(job)
        if not directory.is_dir():
            return
        for entry in directory.iterdir():
            if entry.name != FILE:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (directory / FILE).unlink(missing_ok=True)
        directory.rmdir()

    def clean(self, now_seconds: float, *, seconds: float = KEEP_SECONDS, jobs: int = KEEP_JOBS) -> int:
        """Remove finished jobs older than `seconds` or beyond the youngest `jobs`; how many."""
        finished = [path for path in self._root.iterdir() if path.is_dir() and not (path / FILE).exists()]
        by_age = sorted(((_changed(path), path) for path in finished), reverse=True)
        old = [path for rank, (at, path) in enumerate(by_age) if rank >= jobs or now_seconds - at > seconds]
        return sum(self._remove_finished(path) for path in old)

    def _remove_finished(self, path: Path) -> bool:
        """False where the job has begun to run again meanwhile."""
        with self._finished:
            if (path / FILE).exists():
                return False
            shutil.rmtree(path)
        return True

    def trim_logs(self, pool_bytes: int, user_bytes: int) -> LogLook:
        """Drop the oldest output over these totals; what was found. What live jobs write to now stays."""
        use = measure(self._root, FILE)
        parts = excess(use, pool_bytes, user_bytes)
        dropped = sum(part.size for part in parts if self._drop(part))
        return LogLook(use.total, max(use.by_owner.values(), default=0), pool_bytes, user_bytes, dropped)

    def _drop(self, part: LogPart) -> bool:
        """False where the job has been removed or has begun to run again meanwhile."""
        with self._finished:
            if not part.directory.is_dir() or (not part.is_live and (part.directory / FILE).exists()):
                return False
            drop(part)
        return True


def _checkpoint(path: Path) -> Checkpoint:
    entry = json.loads(path.read_text(encoding="utf-8"))
    version = entry.pop("version")
    if version > VERSION:
        raise StateNewer(f"{path} was written by a newer gpupool (version {version})", hint="run that version")
    return Checkpoint(**entry)


def _changed(directory: Path) -> float:
    """When a finished job's directory last changed: that was its end."""
    return directory.stat().st_mtime
