"""Reads a job's output by absolute offset, also while it is written and rotated.

The supervisor names each segment by the offset of its first byte and never renames one, so a reader
needs no lock. Must not know what the bytes mean.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PREFIX: Final = "log."
_ATTEMPTS: Final = 100


@dataclass(frozen=True)
class LogChunk:
    """A part of a log.

    Attributes:
        offset: The absolute offset of the first byte of `data`.
        data: The bytes.
        dropped_bytes: Bytes between the requested offset and `offset`, removed by rotation.
    """

    offset: int
    data: bytes
    dropped_bytes: int

    @property
    def next_offset(self) -> int:
        """The offset to read from next."""
        return self.offset + len(self.data)


def _segments(job_dir: Path) -> list[tuple[int, Path]]:
    with os.scandir(job_dir) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_PREFIX)]
    starts = [
        (int(name[len(_PREFIX) :]), job_dir / name)
        for name in names
        if name[len(_PREFIX) :].isdecimal()
    ]
    return sorted(starts)


def log_files(job_dir: Path) -> tuple[Path, ...]:
    """List the segments on disk, oldest first."""
    return tuple(path for _, path in _segments(job_dir))


def _read_segments(segments: list[tuple[int, Path]], offset: int, limit: int) -> LogChunk:
    first = segments[0][0] if segments else 0
    start = max(offset, first)
    parts: list[bytes] = []
    at = start
    for number, (begin, path) in enumerate(segments):
        is_last = number + 1 == len(segments)
        if limit <= 0 or (not is_last and segments[number + 1][0] <= at) or begin > at:
            continue
        with path.open("rb") as file:
            file.seek(at - begin)
            parts.append(file.read(limit))
        at += len(parts[-1])
        limit -= len(parts[-1])
    return LogChunk(start, b"".join(parts), max(0, first - offset))


def read_log(job_dir: Path, offset: int, limit: int) -> LogChunk:
    """Read up to `limit` bytes from an absolute offset. Empty data: there is no more yet.

    Bytes that rotation has removed are skipped and counted in `dropped_bytes`.

    Raises:
        FileNotFoundError: The job's directory is gone.
        TimeoutError: The log is rotated faster than it can be read.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _read_segments(_segments(job_dir), offset, limit)
        except FileNotFoundError:  # rotated away between the listing and the reading
            if not job_dir.is_dir():
                raise
    raise TimeoutError(
        f"{job_dir}: the log is rotated faster than it can be read; make log_max_bytes larger"
    )


def log_end(job_dir: Path) -> int:
    """Return the absolute offset behind the last byte on disk; 0 for a job without a directory."""
    try:
        segments = _segments(job_dir)
    except FileNotFoundError:  # it was refused before it had one
        return 0
    return segments[-1][0] + segments[-1][1].stat().st_size if segments else 0
