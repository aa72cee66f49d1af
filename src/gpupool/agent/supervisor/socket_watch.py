"""Watches the sockets of all supervisors and the directories of jobs that wait for a client.

A supervisor sends an event when its job ends, but none when a client attaches and the command
begins. That shows as the file `started` in the job's directory, which inotify(7) reports. One
thread sleeps on all of them. Must not know what a job is.
"""

from __future__ import annotations

import os
import select
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from gpupool.base.inotify import open_inotify, unwatch, watch_path
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread

_ONCE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
# From sys/inotify.h.
_IN_CREATE = 0x100
_IN_ONLYDIR = 0x1000000
_EVENT = struct.Struct("iIII")
_MANY = 256


class SocketWatch:
    """One thread that watches sockets and directories by key. Its methods are thread-safe."""

    def __init__(
        self, handle_readable: Callable[[str], None], handle_started: Callable[[str], None]
    ) -> None:
        """Make the watch; `start` begins it.

        Args:
            handle_readable: Called in the watching thread when the socket of a key is readable,
                and not again before the next `listen`. It must not block.
            handle_started: Called there when the file `started` appears in a key's directory.
        """
        self._handle_readable = handle_readable
        self._handle_started = handle_started
        self._lock = threading.Lock()
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._inotify = StartFileWatch()
        self._sockets: dict[int, str] = {}
        self._closing = False
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._inotify.fileno(), select.EPOLLIN)
        self._thread = SupervisedThread("agent-watch", self._run)

    def start(self) -> None:
        """Start the watching thread."""
        self._thread.start()

    def close(self) -> None:
        """Let the watching thread end."""
        self._closing = True
        os.eventfd_write(self._wake, 1)

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the watching thread, for at most `seconds`."""
        self._thread.join(seconds)

    def listen(self, key: str, descriptor: int) -> None:
        """Report once when the socket becomes readable; call it again after each report."""
        with self._lock:
            is_new = descriptor not in self._sockets
            self._sockets[descriptor] = key
            if is_new:
                self._epoll.register(descriptor, _ONCE)
            else:
                self._epoll.modify(descriptor, _ONCE)

    def forget(self, descriptor: int) -> None:
        """Stop watching a socket. Idempotent.

        Call it before the descriptor is closed: the kernel uses its number again.
        """
        with self._lock:
            if self._sockets.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)

    def await_start(self, key: str, directory: Path) -> None:
        """Report once when the file `started` appears in the directory."""
        self._inotify.add(key, directory)

    def forget_start(self, key: str) -> None:
        """Stop watching the directory of a key. Idempotent."""
        self._inotify.remove(key)

    def _run(self) -> None:
        while not self._closing:
            for descriptor, _ in self._epoll.poll(maxevents=_MANY):
                with mark_busy():
                    self._dispatch(descriptor)

    def _dispatch(self, descriptor: int) -> None:
        if descriptor == self._inotify.fileno():
            for key in self._inotify.read():
                self._handle_started(key)
            return
        with self._lock:
            owner = self._sockets.get(descriptor)
        if owner is not None:
            self._handle_readable(owner)


class StartFileWatch:
    """Watches directories for the file `started`; reports each once. Thread-safe."""

    def __init__(self) -> None:
        self._descriptor = open_inotify()
        self._lock = threading.Lock()
        self._keys: dict[int, str] = {}

    def fileno(self) -> int:
        """Return the descriptor for a selector."""
        return self._descriptor

    def add(self, key: str, directory: Path) -> None:
        """Watch a directory. Raises OSError."""
        with self._lock:
            watch = watch_path(self._descriptor, directory, _IN_CREATE | _IN_ONLYDIR)
            self._keys[watch] = key

    def remove(self, key: str) -> None:
        """Stop watching the directory of a key. Idempotent."""
        with self._lock:
            watches = [watch for watch, known in self._keys.items() if known == key]
            for watch in watches:
                self._remove_watch(watch)

    def read(self) -> list[str]:
        """Return the keys of directories in which the file appeared since the last call."""
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return []
        with self._lock:
            keys = []
            for watch, name in _parse_events(data):
                if name == b"started":
                    keys.append(self._remove_watch(watch))
        return [key for key in keys if key is not None]

    def _remove_watch(self, watch: int) -> str | None:
        key = self._keys.pop(watch, None)
        if key is not None:
            unwatch(self._descriptor, watch)
        return key


def _parse_events(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    at = 0
    while at < len(data):
        watch, _mask, _cookie, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        found.append((watch, data[at : at + length].rstrip(b"\0")))
        at += length
    return found
