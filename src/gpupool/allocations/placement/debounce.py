"""When the placer runs its next cycle: at once, after a burst of submissions, or by time."""

from __future__ import annotations

import threading
import time

#: Seconds without a submission after which a burst counts as over.
QUIET_SECONDS = 0.02
#: Seconds that a submitted job waits at most for others to be placed with it. A stream of
#: submissions would otherwise compete with the starts of its own first jobs (Slurm's
#: batch_sched_delay is 3 s for the same reason). A freed share, an attached run or a changed card
#: ends the wait at once.
MOST_SECONDS = 1.5


class PlacementDebounce:
    """Wakes the placer's thread. One thread waits, any other may wake it."""

    def __init__(self) -> None:
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._arrived = 0.0

    def wake_now(self) -> None:
        """Run the next cycle at once."""
        self._hurry.set()
        self._wake.set()

    def wake_after_burst(self) -> None:
        """Run the next cycle once submissions pause, within `MOST_SECONDS`."""
        self._arrived = time.monotonic()
        self._wake.set()

    def wait_for_wake(self, seconds: float | None) -> None:
        """Block until the next cycle is due, at most that many seconds; None: no limit."""
        self._wake.wait(seconds)
        self._await_quiet()
        # Cleared before the cycle runs: what is committed during the cycle wakes the next one.
        self._wake.clear()
        self._hurry.clear()

    def _await_quiet(self) -> None:
        # Placed one by one, each submission of a burst would cost a plan and a transaction.
        latest = time.monotonic() + MOST_SECONDS
        while (left := min(self._arrived + QUIET_SECONDS, latest) - time.monotonic()) > 0:
            if self._hurry.wait(left):
                return
