"""When the placer looks again: at once for what somebody waits for, else after a burst, or when time alone says so."""

from __future__ import annotations

import threading
import time

QUIET_SECONDS = 0.02
MOST_SECONDS = 1.5
"""How long a job that was only submitted may wait for others to be placed with it: a stream of submissions
would otherwise compete with the starts of its own first jobs (Slurm's batch_sched_delay is 3 s for the same reason).
A freed share, an attached run or a changed card ends the wait at once."""


class Pace:
    """One thread waits; any other says that something came."""

    def __init__(self) -> None:
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._arrived = 0.0

    def hurry(self) -> None:
        """Look at once."""
        self._hurry.set()
        self._wake.set()

    def soon(self) -> None:
        """Something came that nobody waits for: look when no more of its kind comes, within MOST_SECONDS."""
        self._arrived = time.monotonic()
        self._wake.set()

    def wait(self, seconds: float | None) -> None:
        """Until it is time to look; after so many seconds in any case."""
        self._wake.wait(seconds)
        self._await_quiet()
        self._wake.clear()
        self._hurry.clear()

    def _await_quiet(self) -> None:
        """A burst of submissions is placed together: each by itself would cost a plan and a transaction."""
        latest = time.monotonic() + MOST_SECONDS
        while (left := min(self._arrived + QUIET_SECONDS, latest) - time.monotonic()) > 0:
            if self._hurry.wait(left):
                return
