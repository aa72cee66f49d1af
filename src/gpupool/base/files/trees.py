"""Removes directories whose content others made: of any depth, and without following a link.

`shutil.rmtree` calls itself for each level, so a program that makes a thousand directories inside one
another ends it with RecursionError.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a directory and all that is in it; takes two descriptors, however deep it is.

    Raises:
        FileNotFoundError: There is no such directory.
        NotADirectoryError: It is a link, or no directory.
        OSError: Something in it cannot be removed; what is left is removed by the next call.
    """
    top = os.open(path, _FLAGS)
    try:
        while folders := _remove_files(top):
            for name in folders:
                _remove_folder(top, name)
    finally:
        os.close(top)
    os.rmdir(path)


def _remove_files(folder: int) -> list[str]:
    """Remove everything in a directory that is no directory; return the names of those."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders


def _remove_folder(top: int, name: str) -> None:
    """Remove a directory in `top`; the directories in it are moved to `top`, for a later turn."""
    folder = os.open(name, _FLAGS, dir_fd=top)
    try:
        os.fchmod(folder, 0o700)  # a read-only one keeps what is in it
        for inner in _remove_files(folder):
            # A random name: what is in the tree was named by others.
            os.rename(inner, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)
