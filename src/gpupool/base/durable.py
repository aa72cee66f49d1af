"""Replaces files whole or not at all, also across a power cut where that is needed.

Without a flush of the file its name may come back without content; without a flush of the directory
the name itself may be gone (fsync(2)).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_replacement(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its name at the end of the block.

    The file is removed when the block raises, as on a full disk. It is not flushed: use
    `write_durably` for what must survive a power cut.
    """
    # In the same directory: rename(2) replaces atomically only within one file system.
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
    """Replace a file whole or not at all. It is on disk on return; blocks for two flushes."""
    with open_replacement(path, mode=mode) as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)  # whatever the umask
        os.fsync(file.fileno())
    # After kill -9 the file is the old one or the new one; only a power cut needs this flush too.
    sync_directory(path.parent)


def make_directory_durably(path: Path, *, mode: int = 0o700) -> None:
    """Make a directory and those above it; their names survive a power cut. Idempotent."""
    missing = [one for one in (path, *path.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
        sync_directory(one.parent)


def sync_directory(path: Path) -> None:
    """Flush a directory: names made, moved or removed in it stay so after a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
