"""Watches whether the proxies of this machine run, without a question to them.

The kernel says at once that a process has ended (pidfd_open(2)). A HAProxy is found by its master
socket: the kernel knows which process listens there (SO_PEERCRED, unix(7)).
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Seconds for which a proxy that had ended has to run before it counts: it may end at once again.
SETTLE_SECONDS: Final = 1.0
#: Of `struct ucred` (unix(7)): process, user and group.
_CREDENTIALS: Final = struct.Struct("3i")


class LivingProxies:
    """The proxies below one directory. One thread."""

    def __init__(self, root: Path) -> None:
        """Make the object; it looks with `look`.

        Args:
            root: has a directory for each proxy, named by its key, with its master socket.
        """
        self._root = root
        self._handles = dict[str, int]()
        #: Since when a proxy runs that had ended; those that ran at the first look are not in it.
        self._since = dict[str, float]()
        self._known = set[str]()
        self._is_first = True

    def look(self, now: float) -> Mapping[str, bool]:
        """Return by key whether proxies run. Does not block."""
        keys = self._list_keys()
        for key in self._known - keys:
            self._close(key)
            self._since.pop(key, None)
        for key in self._find_ended():
            self._close(key)
        for key in keys - self._handles.keys():
            handle = _open_process(self._root / key / "master.sock")
            if handle is None:
                self._since.pop(key, None)
                continue
            self._handles[key] = handle
            # A watchdog that was restarted finds proxies that run for long.
            if not self._is_first:
                self._since[key] = now
        self._known = keys
        self._is_first = False
        return {key: self._is_settled(key, now) for key in keys}

    def close(self) -> None:
        """Close all that is open. Idempotent."""
        for key in list(self._handles):
            self._close(key)

    def _is_settled(self, key: str, now: float) -> bool:
        return key in self._handles and now - self._since.get(key, float("-inf")) >= SETTLE_SECONDS

    def _list_keys(self) -> set[str]:
        try:
            return set(os.listdir(self._root))
        except FileNotFoundError:
            return set()

    def _find_ended(self) -> list[str]:
        if not self._handles:
            return []
        poller = select.poll()
        for handle in self._handles.values():
            poller.register(handle, select.POLLIN)
        ended = {handle for handle, _ in poller.poll(0)}
        return [key for key, handle in self._handles.items() if handle in ended]

    def _close(self, key: str) -> None:
        handle = self._handles.pop(key, None)
        if handle is not None:
            os.close(handle)


def _open_process(path: Path) -> int | None:
    """Open the process that listens at a socket; None: there is none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.setblocking(False)
            channel.connect(str(path))
            answer = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return os.pidfd_open(_CREDENTIALS.unpack(answer)[0])
    except OSError:
        # It has not started, has ended, or does so now.
        return None
