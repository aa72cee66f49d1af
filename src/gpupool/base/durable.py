"""Files that must survive a power cut: flushed, named by rename, and their directory flushed.

Without the flush of the file its name may come back with nothing in it; without that of the directory the
name itself may be gone (fsync(2)).
"""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file whole or not at all; it is on disk when this returns. Blocks for two flushes."""
    temporary = path.with_name(f"{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Flush a directory: names that were made, moved or removed in it are so after a power cut too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
