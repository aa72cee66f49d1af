"""Waiting for a file below a directory to change, without looking again and again (inotify(7))."""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path

_IN_MODIFY, _IN_MOVED_FROM, _IN_MOVED_TO, _IN_CREATE, _IN_DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF = 0x400, 0x800
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK

_libc = ctypes.CDLL(None, use_errno=True)


async def directory_changed(path: Path, seconds: float) -> None:
    """Return when something in the directory was written or made, or after the time. Raises FileNotFoundError."""
    await _changed(path, seconds, _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE_SELF)


async def names_changed(path: Path, seconds: float) -> None:
    """Return when a name in the directory came, went or moved, or after the time. Raises FileNotFoundError."""
    moved = _IN_MOVED_FROM | _IN_MOVED_TO | _IN_MOVE_SELF
    await _changed(path, seconds, moved | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF)


async def _changed(path: Path, seconds: float, mask: int) -> None:
    fd = _libc.inotify_init1(_FLAGS)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    try:
        if _libc.inotify_add_watch(fd, os.fsencode(path), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(path))
        await _readable(fd, seconds)
    finally:
        os.close(fd)


async def _readable(fd: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        async with asyncio.timeout(seconds):
            await ready.wait()
    except TimeoutError:
        return
    finally:
        loop.remove_reader(fd)
