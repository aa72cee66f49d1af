"""The clocks of a process. Domain code gets the time as an argument; entry points take it from here.

The ledger needs a time that never runs backwards, across restarts and steps of the wall clock:
otherwise its intervals would not close. `LedgerClock` is anchored to the wall clock at the start,
driven by CLOCK_BOOTTIME afterwards, and never before the last instant in the ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wall_ns() -> int:
    """Read the wall clock: nanoseconds since 1970 in UTC. It can step."""
    return time.time_ns()


def boot_ns() -> int:
    """Read the nanoseconds since boot, with the time of suspension. They never step."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class LedgerClock:
    """A clock of nanoseconds since 1970 that only grows. Thread-safe; never blocks."""

    def __init__(
        self,
        floor_ns: int = 0,
        *,
        wall: Callable[[], int] = wall_ns,
        boot: Callable[[], int] = boot_ns,
    ) -> None:
        """Anchor the clock.

        Args:
            floor_ns: The last instant in the ledger. Where the wall clock was set back, this clock
                continues from there and runs ahead of the wall clock by `ahead_ns`.
            wall: Nanoseconds since 1970.
            boot: Nanoseconds since boot.
        """
        self._wall = wall
        self._boot = boot
        self._anchor_boot = boot()
        self._anchor = max(wall(), floor_ns)
        self._last = self._anchor
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """Read the clock: nanoseconds since 1970, never less than before."""
        with self._lock:
            # Threads read it side by side: none may see an earlier instant than another saw before.
            self._last = max(self._last, self._anchor + self._boot() - self._anchor_boot)
            return self._last

    def begin_at(self, floor_ns: int) -> None:
        """Anchor the clock again, for a server that begins to write only now.

        The wall clock and the ledger may have moved on since the start.
        """
        with self._lock:
            self._anchor_boot = self._boot()
            self._anchor = max(self._wall(), floor_ns, self._last)

    def ahead_ns(self) -> int:
        """Return how far this clock is ahead of the wall clock, in ns (negative: behind)."""
        return self.now_ns() - self._wall()
