"""A clock that stands while this process does (docs/decisions/0014).

A process that is stopped (SIGSTOP), suspended with its machine, or not run by a machine that is too busy has done no
work in that time, and is not late with it. So time counts in small steps: of a gap between two steps no more than
`MOST_SECONDS` is believed. Must not know what is timed.
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
    """Seconds in which the process ran, as long as `step` is called about once a second. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._counted, self._last = 0.0, now()

    def __call__(self) -> float:
        with self._lock:
            return self._counted + self._since_step()

    def step(self) -> None:
        with self._lock:
            self._counted += self._since_step()
            self._last = self._now()

    def _since_step(self) -> float:
        return min(self._now() - self._last, MOST_SECONDS)
