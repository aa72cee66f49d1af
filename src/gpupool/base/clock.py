"""Clocks. Time comes into the domain as an argument; this is where it comes from.

The ledger needs a time that never runs backwards, across restarts and steps of the wall
clock, or its intervals would not close. `LedgerClock` gives one: anchored to the wall at
start, driven by CLOCK_BOOTTIME afterwards, and never before the last time it is told of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wall_ns() -> int:
    """UTC nanoseconds since 1970, as the machine's clock says now."""
    return time.time_ns()


def boot_ns() -> int:
    """Nanoseconds since boot, suspend included; never steps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class LedgerClock:
    """Nanoseconds since 1970 that only grow. Thread-safe; blocks nothing.

    `floor_ns` is the last instant already in the books: a wall clock that was set back
    makes the ledger go on from there, so it may run ahead of the wall until the wall
    catches up; `ahead_ns` says by how much.
    """

    def __init__(
        self, floor_ns: int = 0, *, wall: Callable[[], int] = wall_ns, boot: Callable[[], int] = boot_ns
    ) -> None:
        self._wall, self._boot = wall, boot
        self._anchor_boot = boot()
        self._anchor = max(wall(), floor_ns)
        self._last = self._anchor
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        with self._lock:
            self._last = max(self._last, self._anchor + self._boot() - self._anchor_boot)
            return self._last

    def begin_at(self, floor_ns: int) -> None:
        """Anchor the clock anew for a server that begins to write only now: wall clock and books may have moved on."""
        with self._lock:
            self._anchor_boot = self._boot()
            self._anchor = max(self._wall(), floor_ns, self._last)

    def ahead_ns(self) -> int:
        """How far the ledger is ahead of the wall clock (negative: behind)."""
        return self.now_ns() - self._wall()
