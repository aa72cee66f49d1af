"""Quotas of job output on a node: of the whole pool and of each Unix account.

The oldest output is dropped first: whole logs of finished jobs, then the oldest segments of live
jobs. The segment that a supervisor writes to is never changed. Must not know how a job starts or
ends.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpupool.agent.supervisor.job_log import log_end, log_files
from gpupool.base.errors import BadOption, BadQuantity
from gpupool.base.health import CheckFinding, warn, well
from gpupool.base.units import parse_memory

POOL = "GPUPOOL_MAX_LOG_PER_POOL"
USER = "GPUPOOL_MAX_LOG_PER_USER"
#: Bytes: 128 logs of the usual 64 MiB.
POOL_BYTES = 8 << 30
#: Bytes: 32 logs of the usual 64 MiB.
USER_BYTES = 2 << 30
#: The default is at most this part of the file system, so that a small disk is not filled by output
#: alone.
PART_OF_DISK = 8
#: Without a value of its own a user may keep this part of what the pool may.
PART_OF_POOL = 4
#: The part of a quota from which on it is said to be reached.
NEAR = 0.9
#: Name of an empty file in a job's directory, before the uid of the job's account.
OWNER = "owner."


@dataclass(frozen=True)
class LogQuota:
    """Bytes of output on one node; None: the default for the file system that holds the jobs."""

    pool_bytes: int | None = None
    user_bytes: int | None = None

    def bounds(self, directory: Path) -> tuple[int, int]:
        """Return the bytes for the pool and for each account, on the directory's file system."""
        disk = os.statvfs(directory)
        usual = min(POOL_BYTES, disk.f_blocks * disk.f_frsize // PART_OF_DISK)
        pool = usual if self.pool_bytes is None else self.pool_bytes
        user = min(USER_BYTES, pool // PART_OF_POOL) if self.user_bytes is None else self.user_bytes
        return pool, user


def read_log_quota(environ: Mapping[str, str]) -> LogQuota:
    """Read the quota that the environment sets. Raises BadOption for a text that is no size."""
    return LogQuota(_size(environ, POOL), _size(environ, USER))


def _size(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        return parse_memory(text)
    except BadQuantity as error:
        raise BadOption(
            f"{name}={text!r} is not a size", hint=f"write it like {name}=2GiB"
        ) from error


def note_owner(directory: Path, uid: int) -> None:
    """Write which account owns a job. Idempotent.

    The file's name has the uid, so that it is there whole or not at all.
    """
    (directory / f"{OWNER}{uid}").touch(mode=0o600)


@dataclass(frozen=True)
class LogPart:
    """Output that can be dropped in one step: segments of one job.

    Attributes:
        owner: The uid of the job's account, as text; None where it is unknown.
        size: Bytes.
        changed: When the output last changed, in nanoseconds since 1970.
    """

    directory: Path
    paths: tuple[Path, ...]
    is_live: bool
    owner: str | None
    size: int
    changed: int


@dataclass
class LogUse:
    """The bytes of all logs, and the parts that can be dropped, the first to drop first."""

    total: int
    by_owner: Counter[str]
    parts: list[LogPart]


def measure_logs(jobs: Path, checkpoint: str) -> LogUse:
    """Measure every log. Blocks for one stat a segment.

    Args:
        jobs: The directory of all jobs.
        checkpoint: The name of the file that the directory of a live job has.
    """
    use = LogUse(0, Counter(), [])
    with os.scandir(jobs) as entries:
        directories = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for directory in directories:
        try:
            _add_log(use, directory, is_live=(directory / checkpoint).exists())
        except FileNotFoundError:
            continue  # rotated or removed since the listing; the next look sees it
    use.parts.sort(key=lambda part: (part.is_live, part.changed))
    return use


def _add_log(use: LogUse, directory: Path, *, is_live: bool) -> None:
    owner = next(
        (name.removeprefix(OWNER) for name in os.listdir(directory) if name.startswith(OWNER)), None
    )
    looks = [(path, path.stat()) for path in log_files(directory)]
    size = sum(look.st_size for _, look in looks)
    use.total += size
    if owner is not None:
        use.by_owner[owner] += size
    if is_live:
        for path, look in looks[:-1]:
            use.parts.append(
                LogPart(directory, (path,), True, owner, look.st_size, look.st_mtime_ns)
            )
    elif size:
        paths = tuple(path for path, _ in looks)
        use.parts.append(
            LogPart(directory, paths, False, owner, size, directory.stat().st_mtime_ns)
        )


def choose_excess(use: LogUse, pool_bytes: int, user_bytes: int) -> list[LogPart]:
    """Choose the parts to drop: first above each account's quota, then above the pool's.

    Args:
        use: What there is.
        pool_bytes: The quota of all logs together.
        user_bytes: The quota of each account.
    """
    total = use.total
    by_owner = use.by_owner.copy()
    chosen: list[LogPart] = []
    for part in use.parts:
        if part.owner is not None and by_owner[part.owner] > user_bytes:
            chosen.append(part)
            total -= part.size
            by_owner[part.owner] -= part.size
    chosen_ids = {id(part) for part in chosen}
    for part in use.parts:
        if total <= pool_bytes:
            break
        if id(part) not in chosen_ids:
            chosen.append(part)
            total -= part.size
    return chosen


@dataclass(frozen=True)
class LogLook:
    """What one look at the logs found before anything was dropped, and what was dropped. Bytes."""

    total: int
    largest_user: int
    pool_bytes: int
    user_bytes: int
    dropped: int


def judge_logs(look: LogLook) -> CheckFinding:
    """Judge whether output is dropped, or about to be."""
    summary = (
        f"{look.total >> 20} of {look.pool_bytes >> 20} MiB of job output, "
        f"{look.largest_user >> 20} of {look.user_bytes >> 20} MiB by one account"
    )
    hint = f"raise {POOL} and {USER} before  gpupool up , or let jobs write less"
    if look.dropped:
        return warn(f"{summary}: the oldest {look.dropped >> 20} MiB were dropped", hint)
    if look.total >= NEAR * look.pool_bytes or look.largest_user >= NEAR * look.user_bytes:
        return warn(f"{summary}: the oldest is dropped next", hint)
    return well(summary)


def drop_part(part: LogPart) -> None:
    """Remove a part; readers count its bytes as dropped. Idempotent, also after a crash half-way.

    An empty segment stays where the log of a finished job ended: it keeps the log's length, and a
    later run continues there.
    """
    if part.is_live:
        part.paths[0].unlink(missing_ok=True)
        return
    before = part.directory.stat()
    end = part.directory / f"log.{log_end(part.directory):016}"
    os.close(os.open(end, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640))
    for path in part.paths:
        if path != end:
            path.unlink(missing_ok=True)
    # The directory's time is that of the job's end, by which finished jobs are removed.
    os.utime(part.directory, ns=(before.st_atime_ns, before.st_mtime_ns))
