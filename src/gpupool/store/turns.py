"""A lock that is given to the thread that has asked for it first.

`threading.Lock` goes to any thread that happens to run: one that writes again and again overtook
another account's submission for 6.8 s, with transactions of 0.2 to 1 s each. Here a writer waits
for those before it and no others.
"""

from __future__ import annotations

import threading
from collections import deque


class TurnQueue:
    """Thread-safe; must not be taken again by the thread that has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def take(self, seconds: float) -> bool:
        """Wait for the turn at most so many seconds; return whether it is the caller's now.

        A caller that gives up waits no more.
        """
        with self._lock:
            if not self._taken:
                self._taken = True
                return True
            # One gate for each waiter, taken from the start: the thread before opens it, and only
            # this one.
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        if gate.acquire(timeout=seconds):
            return True
        with self._lock:
            if gate not in self._waiting:  # the turn came at the very moment of giving up
                return True
            self._waiting.remove(gate)
            return False

    def give(self) -> None:
        """End the caller's turn; the one that waits longest has it next."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
