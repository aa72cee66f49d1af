"""Waits for changes in a directory without polling (inotify(7))."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

# Events and flags of inotify(7); the C library is called, since Python has no binding.
_IN_MODIFY = 0x2
_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK

_libc = ctypes.CDLL(None, use_errno=True)


def _expect_nothing() -> bool:
    return False


async def await_directory_change(
    path: Path, seconds: float, has_changed: Callable[[], bool] = _expect_nothing
) -> None:
    """Return when something in the directory was written or created, or after the time.

    Args:
        has_changed: asked once, when no change is missed any more: whether there was one before.

    Raises:
        FileNotFoundError: there is no directory.
    """
    mask = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE_SELF
    await _await_change(path, seconds, mask, has_changed)


async def await_name_change(path: Path, seconds: float) -> None:
    """Return when a name in the directory was created, removed or moved, or after the time.

    Raises:
        FileNotFoundError: there is no directory.
    """
    moved = _IN_MOVED_FROM | _IN_MOVED_TO | _IN_MOVE_SELF
    await _await_change(path, seconds, moved | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF)


async def _await_change(
    path: Path, seconds: float, mask: int, has_changed: Callable[[], bool] = _expect_nothing
) -> None:
    fd = _libc.inotify_init1(_FLAGS)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    try:
        if _libc.inotify_add_watch(fd, os.fsencode(path), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(path))
        if not has_changed():
            await _await_readable(fd, seconds)
    finally:
        os.close(fd)


async def _await_readable(fd: int, seconds: float) -> None:
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
