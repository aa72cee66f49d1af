"""inotify(7) instances, of which an account has few: 128 unless the machine's admin says more."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

# From sys/inotify.h.
_CLOEXEC: Final = 0o2000000
_NONBLOCK: Final = 0o4000
_LIMITS: Final = Path("/proc/sys/fs/inotify")


def open_inotify() -> int:
    """Open an instance that does not block; return its descriptor. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    return _check(libc.inotify_init1(_CLOEXEC | _NONBLOCK))


def watch_path(descriptor: int, path: os.PathLike[str] | str, events: int) -> int:
    """Watch a file or directory; return the number of the watch. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    return _check(libc.inotify_add_watch(descriptor, os.fsencode(path), events), os.fspath(path))


def unwatch(descriptor: int, watch: int) -> None:
    """Remove a watch. Idempotent: it has ended already where its directory has gone."""
    ctypes.CDLL(None).inotify_rm_watch(descriptor, watch)


def _check(answer: int, path: str = "") -> int:
    if answer >= 0:
        return answer
    code = ctypes.get_errno()
    where = f" {path}" if path else ""
    # The kernel's words are "too many open files" and "no space left on device".
    if code == errno.EMFILE:
        text = f"cannot watch files: {_describe_limit('max_user_instances')}"
    elif code == errno.ENOSPC:
        text = f"cannot watch{where}: {_describe_limit('max_user_watches')}"
    else:
        text = f"cannot watch{where}: {os.strerror(code)}"
    raise OSError(code, text)


def _describe_limit(name: str) -> str:
    try:
        limit = (_LIMITS / name).read_text().strip()
    except OSError:
        limit = "--"
    return (
        f"all {limit} of this account's (fs.inotify.{name}) are in use, or the process has no "
        f"descriptor left; more: sysctl fs.inotify.{name}=N"
    )
