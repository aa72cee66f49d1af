"""Hearing of jobs: one thread asleep on the sockets of all supervisors, and on the directories of jobs that wait
for their client.

A supervisor says when its job ended, not when a client attached and the command began; that shows as the file
`started` in the job's directory, and inotify(7) tells of it. Knows nothing of what a job is.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread

_ONCE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
_IN_CREATE, _IN_ONLYDIR, _IN_NONBLOCK, _IN_CLOEXEC = 0x100, 0x1000000, 0o4000, 0o2000000  # sys/inotify.h
_EVENT = struct.Struct("iIII")
_MANY = 256


class Watch:
    """`heard(key)` is called in the watching thread when the socket under that key has something to read, and
    not again before `listen(key)`; `began(key)` when a file `started` appeared in the directory under it.
    """

    def __init__(self, heard: Callable[[str], None], began: Callable[[str], None]) -> None:
        self._heard, self._began = heard, began
        self._lock = threading.Lock()
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._inotify = Inotify()
        self._sockets: dict[int, str] = {}
        self._closing = False
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._inotify.fileno(), select.EPOLLIN)
        self._thread = SupervisedThread("agent-watch", self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        os.eventfd_write(self._wake, 1)

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def listen(self, key: str, descriptor: int) -> None:
        """Hear once of the next thing to read; again after each `heard`."""
        with self._lock:
            known = self._sockets.get(descriptor)
            self._sockets[descriptor] = key
            if known is None:
                self._epoll.register(descriptor, _ONCE)
            else:
                self._epoll.modify(descriptor, _ONCE)

    def forget(self, descriptor: int) -> None:
        """Before the descriptor is closed: its number will be used again."""
        with self._lock:
            if self._sockets.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)

    def await_start(self, key: str, directory: Path) -> None:
        self._inotify.add(key, directory)

    def forget_start(self, key: str) -> None:
        self._inotify.remove(key)

    def _run(self) -> None:
        while not self._closing:
            for descriptor, _ in self._epoll.poll(maxevents=_MANY):
                with busy():
                    self._tell(descriptor)

    def _tell(self, descriptor: int) -> None:
        if descriptor == self._inotify.fileno():
            for key in self._inotify.read():
                self._began(key)
            return
        with self._lock:
            owner = self._sockets.get(descriptor)
        if owner is not None:
            self._heard(owner)


class Inotify:
    """Directories in which `started` is awaited; each is told of once."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._check(self._libc.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK))
        self._lock = threading.Lock()
        self._keys: dict[int, str] = {}

    def fileno(self) -> int:
        return self._descriptor

    def add(self, key: str, directory: Path) -> None:
        with self._lock:
            path = os.fsencode(directory)
            watch = self._libc.inotify_add_watch(self._descriptor, path, _IN_CREATE | _IN_ONLYDIR)
            self._keys[self._check(watch)] = key

    def remove(self, key: str) -> None:
        """Idempotent; what it has told already is gone of itself."""
        with self._lock:
            for watch in [watch for watch, known in self._keys.items() if known == key]:
                self._take(watch)

    def read(self) -> list[str]:
        """The keys of directories in which the file appeared since the last call."""
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return []
        with self._lock:
            found = [self._take(watch) for watch, name in _events(data) if name == b"started"]
        return [key for key in found if key is not None]

    def _take(self, watch: int) -> str | None:
        key = self._keys.pop(watch, None)
        if key is not None:
            self._libc.inotify_rm_watch(self._descriptor, watch)
        return key

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        return int(result)


def _events(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        watch, _mask, _cookie, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        found.append((watch, data[at : at + length].rstrip(b"\0")))
        at += length
    return found
