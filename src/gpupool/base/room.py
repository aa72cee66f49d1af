"""Disk space of a state directory: what a pool keeps in reserve, and what a new pool needs.

Must not write any data.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from gpupool.base.errors import DiskFull, GpupoolError, StateUnusable

#: Bytes ahead in the database's log: some 8,000 pages, of which ending a job takes 10 to 20.
LOG_BYTES: Final = 32 << 20
#: Bytes ahead in the database, for the checkpoint that brings these pages there.
DATABASE_BYTES: Final = 8 << 20
#: The reserve of a small disk is this part of it.
PART_OF_DISK: Final = 16
#: Bytes of everything else that a new pool writes: 0.4 MiB are measured with one simulated card.
FIRST_FILES_BYTES: Final = 2 << 20
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def reserve_bytes(size: int) -> tuple[int, int]:
    """Return the bytes to reserve in the log and in the database, on a disk of `size` bytes.

    >>> reserve_bytes(64 << 20)
    (4194304, 1048576)
    """
    return min(LOG_BYTES, size // PART_OF_DISK), min(DATABASE_BYTES, size // PART_OF_DISK // 4)


def check_room_for_new_pool(place: str) -> None:
    """Check that a new pool has space for its reserve.

    Args:
        place: Its state directory, which need not exist yet.

    Raises:
        DiskFull: There is not enough space.
    """
    place = _find_existing(place)
    disk = os.statvfs(place)
    log, database = reserve_bytes(disk.f_blocks * disk.f_frsize)
    # Beside the reserve as much as the database's part of it must stay free: else the disk counts
    # as full.
    needed = log + 2 * database + FIRST_FILES_BYTES
    free = disk.f_bavail * disk.f_frsize
    if free < needed:
        raise DiskFull(
            f"no pool was made: it needs {_mib(needed)} MiB, and {free >> 20} MiB are free at {place}",
            hint=f"free {_mib(needed - free)} MiB, or choose another disk with --state-dir",
        )


def state_error(root: str, error: OSError) -> GpupoolError:
    """Make the error for a state directory that could not be read or written."""
    if error.errno in _FULL:
        return no_room(root)
    said = f"{root} cannot be used as state directory: {error.strerror}"
    if error.errno == errno.EROFS:
        return StateUnusable(said, hint="mount it writable, or choose another with --state-dir")
    return StateUnusable(said, hint="choose one with --state-dir, or mend its permissions")


def no_room(root: str) -> DiskFull:
    """Make the error for an existing pool that cannot start or continue for lack of space."""
    disk = os.statvfs(_find_existing(root))
    said = f"{disk.f_bavail * disk.f_frsize >> 20} MiB and {disk.f_favail} files free"
    return DiskFull(
        f"the disk of {root} is full ({said}); nothing was changed",
        hint="free some space and try again; gpupool down --purge needs none",
    )


def write_problem(root: str | os.PathLike[str]) -> str:
    """Return why the owner cannot write the directory; empty where that works.

    Changes the directory's times only.
    """
    try:
        # It needs the right to write and no space, so a full disk is not taken for a missing right.
        os.utime(root)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def is_full(error: OSError) -> bool:
    """Whether an error says that the disk or its quota is full."""
    return error.errno in _FULL


def _find_existing(place: str) -> str:
    """Find the directory, or the nearest one above it that exists."""
    while not os.path.exists(place):
        place = os.path.dirname(place)
    return place


def _mib(size: int) -> int:
    """Convert bytes to MiB, rounded up."""
    return -(-size >> 20)
