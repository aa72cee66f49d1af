"""Space on the disk that is kept for freeing: what ends jobs can be written when nothing else can.

Blocks are allocated ahead, behind the last frame of the write-ahead log and behind the end of the
database, so that a full disk cannot take them. Once no more can be allocated ahead, only writes
that free something go on; all others are refused with nothing changed. File systems that copy on
write (btrfs, ZFS) do not keep this promise.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import struct
import threading
from contextlib import suppress
from pathlib import Path

from gpupool.base.room import reserve_bytes

logger = logging.getLogger(__name__)

#: Of the log's index, for a log of 64 MiB: 32 KiB for each 4,096 frames of 4 KiB.
INDEX_BYTES = 160 << 10

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE, linux/falloc.h
_FRAME_BYTES = 4096 + 24  # a page and its header; https://sqlite.org/fileformat2.html#walformat
_NUMBER = struct.Struct("=I")
# Of the index: the last frame, and the last one that the database has;
# https://sqlite.org/walformat.html#walidxfmt
_LAST_FRAME_AT = 16
_LAST_COPIED_AT = 96
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class DiskReserve:
    """The reserve of one open SQLite database. Thread-safe.

    Its descriptors must stay open until the last connection is closed: closing one would drop
    SQLite's own locks on the file (fcntl(2) locks are the process's).
    """

    def __init__(self, database: Path) -> None:
        disk = os.statvfs(database.parent)
        self._log_bytes, self._database_bytes = reserve_bytes(disk.f_blocks * disk.f_frsize)
        self._margin = self._database_bytes
        self._parked = _parked_file(database)
        self._lock = threading.Lock()
        self._database = os.open(database, os.O_RDWR | os.O_CLOEXEC)
        self._log = os.open(f"{database}-wal", os.O_RDWR | os.O_CLOEXEC)
        self._index = os.open(f"{database}-shm", os.O_RDWR | os.O_CLOEXEC)
        self._ahead = 0
        self.full = False
        self._parked.unlink(missing_ok=True)
        self.refill()

    def has_room(self) -> bool:
        """Return whether the disk has room for what frees nothing: less than a margin is full."""
        found = os.fstatvfs(self._log)
        if found.f_bavail * found.f_frsize >= self._margin and not self.full:
            return True
        return self.refill() and found.f_bavail * found.f_frsize >= self._margin

    def refill(self) -> bool:
        """Allocate ahead what is missing; return whether all of it is there.

        Cheap where nothing is missing.
        """
        with self._lock:
            frames = self._read_number(_LAST_FRAME_AT)
            used = frames * _FRAME_BYTES
            # A checkpoint that copied all cuts the database at its end, and the blocks behind it off.
            is_cut = frames > 0 and self._read_number(_LAST_COPIED_AT) == frames
            if not self.full and not is_cut and self._ahead >= used + self._log_bytes // 2:
                return True
            try:
                _allocate_ahead(self._log, used + self._log_bytes)
                _allocate_ahead(
                    self._database, os.fstat(self._database).st_size + self._database_bytes
                )
                _extend_index(self._index, INDEX_BYTES)
            except OSError as error:
                if not self.full:
                    logger.warning(
                        "the disk is full: only what frees something is written (%s)",
                        error.strerror,
                    )
                self.full = True
                return False
            if self.full:
                logger.warning("the disk has room again: everything is written")
            self._ahead = used + self._log_bytes
            self.full = False
            return True

    def close(self) -> None:
        """Keep the log's blocks in a file of their own, once SQLite has removed the log."""
        for descriptor in (self._database, self._log, self._index):
            os.close(descriptor)
        with suppress(OSError), open(self._parked, "wb", opener=_open_private) as file:
            _allocate_ahead(file.fileno(), self._log_bytes)

    def _read_number(self, offset: int) -> int:
        found = os.pread(self._index, _NUMBER.size, offset)
        return int(_NUMBER.unpack(found)[0]) if len(found) == _NUMBER.size else 0


def use_parked(database: Path) -> None:
    """Give a full disk the blocks of a pool that was stopped, so that its database can be opened.

    Idempotent.
    """
    disk = os.statvfs(database.parent)
    free = disk.f_bavail * disk.f_frsize
    if free < reserve_bytes(disk.f_blocks * disk.f_frsize)[1]:
        _parked_file(database).unlink(missing_ok=True)


def _parked_file(database: Path) -> Path:
    return database.with_name(f"{database.name}.reserve")


def _allocate_ahead(descriptor: int, until: int) -> None:
    """Allocate blocks from the file's beginning, behind its end too, and leave its size."""
    if _libc.fallocate(descriptor, _KEEP_SIZE, 0, until) != 0:
        number = ctypes.get_errno()
        if number not in _UNSUPPORTED:
            raise OSError(number, os.strerror(number))


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _extend_index(descriptor: int, size: int) -> None:
    """Give the index its size ahead: SQLite takes more of it only where the file is shorter."""
    if os.fstat(descriptor).st_size < size:
        os.posix_fallocate(descriptor, 0, size)
