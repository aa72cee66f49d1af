"""Callers in memory, so that a request of a known caller reads no database."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
#: Entries of a cache; beyond that it is emptied. Only authenticated callers make an entry.
KNOWN_AT_MOST = 4096


class IdentityCache(Generic[K, V]):
    """A bounded memory that forgets everything at once, also what is being read meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[K, V] = {}
        self.epoch = 0

    def get(self, key: K) -> V | None:
        # Without the lock: one reading of an attribute, and the dictionary is replaced, never
        # emptied.
        return self._items.get(key)

    def put(self, key: K, value: V, epoch: int) -> None:
        """Remember, unless something was forgotten since `epoch` was read."""
        with self._lock:
            if epoch != self.epoch:
                return
            if len(self._items) >= KNOWN_AT_MOST:
                self._items = {}
            self._items[key] = value

    def forget(self) -> None:
        with self._lock:
            self.epoch += 1
            self._items = {}
