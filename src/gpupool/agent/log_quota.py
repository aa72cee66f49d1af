"""How many bytes of job output a node keeps: of the whole pool and of each Unix account.

A log is dropped oldest first: whole logs of finished jobs, then the oldest segments of live jobs. The segment that a
supervisor writes to is never touched. Must not know how a job starts or ends.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpupool.agent.job_log import log_end, log_files
from gpupool.base.errors import BadOption, BadQuantity
from gpupool.base.health import Finding, warn, well
from gpupool.base.units import parse_memory

POOL = "GPUPOOL_MAX_LOG_PER_POOL"
USER = "GPUPOOL_MAX_LOG_PER_USER"
#: Bytes: 128 logs of the usual 64 MiB.
POOL_BYTES = 8 << 30
#: Bytes: 32 logs of the usual 64 MiB.
USER_BYTES = 2 << 30
#: The default is at most this part of the file system, so that a small disk is not filled by output alone.
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
        """Bytes for the pool and for each user of it, on the file system of `directory`."""
        disk = os.statvfs(directory)
        usual = min(POOL_BYTES, disk.f_blocks * disk.f_frsize // PART_OF_DISK)
        pool = usual if self.pool_bytes is None else self.pool_bytes
        user = min(USER_BYTES, pool // PART_OF_POOL) if self.user_bytes is None else self.user_bytes
        return pool, user


def quota_from(environ: Mapping[str, str]) -> LogQuota:
    """What the environment sets; what is not given is the default. Raises BadOption."""
    return LogQuota(_size(environ, POOL), _size(environ, USER))


def _size(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        return parse_memory(text)
    except BadQuantity as error:
        raise BadOption(f"{name}={text!r} is not a size", hint=f"write it like {name}=2GiB") from error


def note_owner(directory: Path, uid: int) -> None:
    """Note whose job this is. The name carries the uid: it is there whole or not at all. Idempotent."""
    (directory / f"{OWNER}{uid}").touch(mode=0o600)


@dataclass(frozen=True)
class LogPart:
    """Output that can be dropped in one step: segments of one job. `size` in bytes, `changed` in ns."""

    directory: Path
    paths: tuple[Path, ...]
    is_live: bool
    owner: str | None
    size: int
    changed: int


@dataclass
class LogUse:
    """What the logs below a directory take. `parts` is what may go, the first to go first."""

    total: int
    by_owner: Counter[str]
    parts: list[LogPart]


def measure(jobs: Path, checkpoint: str) -> LogUse:
    """Look at every log. A job whose directory has the file `checkpoint` is live; blocks for one stat a segment."""
    use = LogUse(0, Counter(), [])
    for directory in [Path(entry.path) for entry in os.scandir(jobs) if entry.is_dir(follow_symlinks=False)]:
        try:
            _add(use, directory, is_live=(directory / checkpoint).exists())
        except FileNotFoundError:  # rotated or removed between the listing and the look: the next look sees it
            continue
    use.parts.sort(key=lambda part: (part.is_live, part.changed))
    return use


def _add(use: LogUse, directory: Path, *, is_live: bool) -> None:
    owner = next((name.removeprefix(OWNER) for name in os.listdir(directory) if name.startswith(OWNER)), None)
    looks = [(path, path.stat()) for path in log_files(directory)]
    size = sum(look.st_size for _, look in looks)
    use.total += size
    if owner is not None:
        use.by_owner[owner] += size
    if is_live:
        for path, look in looks[:-1]:
            use.parts.append(LogPart(directory, (path,), True, owner, look.st_size, look.st_mtime_ns))
    elif size:
        paths = tuple(path for path, _ in looks)
        use.parts.append(LogPart(directory, paths, False, owner, size, directory.stat().st_mtime_ns))


def excess(use: LogUse, pool_bytes: int, user_bytes: int) -> list[LogPart]:
    """What has to go, in order: first what each user has over its quota, then what the pool has over its own."""
    total, by_owner = use.total, use.by_owner.copy()
    chosen: list[LogPart] = []
    for part in use.parts:
        if part.owner is not None and by_owner[part.owner] > user_bytes:
            chosen.append(part)
            total -= part.size
            by_owner[part.owner] -= part.size
    taken = set(map(id, chosen))
    for part in use.parts:
        if total <= pool_bytes:
            break
        if id(part) not in taken:
            chosen.append(part)
            total -= part.size
    return chosen


@dataclass(frozen=True)
class LogLook:
    """What one look at the logs found, in bytes: before anything was dropped, and how much was dropped then."""

    total: int
    largest_user: int
    pool_bytes: int
    user_bytes: int
    dropped: int


def judge_logs(look: LogLook) -> Finding:
    """Whether output is about to be dropped, or is being dropped."""
    said = (
        f"{look.total >> 20} of {look.pool_bytes >> 20} MiB of job output, "
        f"{look.largest_user >> 20} of {look.user_bytes >> 20} MiB by one account"
    )
    following = f"raise {POOL} and {USER} before  gpupool up , or let jobs write less"
    if look.dropped:
        return warn(f"{said}: the oldest {look.dropped >> 20} MiB were dropped", following)
    if look.total >= NEAR * look.pool_bytes or look.largest_user >= NEAR * look.user_bytes:
        return warn(f"{said}: the oldest is dropped next", following)
    return well(said)


def drop(part: LogPart) -> None:
    """Remove the part; readers count its bytes as dropped. Idempotent, and safe to be cut off at any line.

    An empty segment stays where a finished log ended: it says how long the log was, and a later run goes on there.
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
