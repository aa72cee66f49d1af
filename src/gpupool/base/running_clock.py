"""A clock that counts only the time in which this process ran (docs/decisions/0014).

A process that is stopped (SIGSTOP), suspended with its machine, or not scheduled by a busy machine
cannot work in that time, and is not late with it. So time counts in small steps: of a gap between
two steps at most `MOST_SECONDS` count. Must not know what is timed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds between two calls of `step`.
STEP_SECONDS: Final = 1.0
#: So much of the time since the last step counts; the rest is a pause of the process.
MOST_SECONDS: Final = 2.0


class RunningClock:
    """Counts the seconds in which the process ran. Thread-safe.

    Call `step` about once a second.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._counted = 0.0
        self._last = now()

    def __call__(self) -> float:
        with self._lock:
            return self._counted + self._since_step()

    def step(self) -> None:
        """Count the time since the last step."""
        with self._lock:
            self._counted += self._since_step()
            self._last = self._now()

    def _since_step(self) -> float:
        return min(self._now() - self._last, MOST_SECONDS)
