"""Files that are replaced whole or not at all, and those that must also survive a power cut.

Without the flush of the file its name may come back with nothing in it; without that of the directory the
name itself may be gone (fsync(2)).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its name at the end of the block; removed when the block raises (a full disk).

    Not flushed: for what a power cut ends anyway, or what is made again. Otherwise `write_durably`.
    """
    temporary = path.with_name(f"{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file whole or not at all; it is on disk when this returns. Blocks for two flushes."""
    with replacing(path, mode=mode) as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)  # whatever the umask
        os.fsync(file.fileno())
    sync_directory(path.parent)


def make_directory_durably(path: Path, *, mode: int = 0o700) -> None:
    """Make a directory, where it is not there, and those above it; their names survive a power cut. Idempotent."""
    missing = [one for one in (path, *path.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
        sync_directory(one.parent)


def sync_directory(path: Path) -> None:
    """Flush a directory: names that were made, moved or removed in it are so after a power cut too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
