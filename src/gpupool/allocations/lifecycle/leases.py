"""Leases of attached clients: a job whose client stops asking is stopped.

Leases live in memory. While the server is down no client can renew, so a server that starts gives
every attached job a fresh lease. A process that was stopped or starved received no request either,
so it does the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread

#: Seconds after the last request of its client after which an attached job is stopped.
LEASE_SECONDS = 15.0
#: Seconds between two looks of the timer at most, while there are leases.
TICK_SECONDS = 1.0
#: A look that comes later than planned by so many seconds means that the process stood still.
LATE_SECONDS = 2.0


class Leases:
    """The leases of attached jobs. Thread-safe.

    `expired` is called in the timer's thread with the jobs whose leases have ended.
    """

    def __init__(
        self, expired: Callable[[list[str]], None], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._expired = expired
        self._now = now
        #: The end of each lease by `now`.
        self._until: dict[str, float] = {}
        #: Requests that wait for each job: a lease does not end while there is one.
        self._held: dict[str, int] = {}
        self._changed = threading.Condition()
        self._closing = False
        #: When the timer means to look next; None while there are no leases.
        self._next_look: float | None = None
        self._thread = SupervisedThread("leases", self._loop)

    def start(self, jobs: Iterable[str] = ()) -> None:
        """Lease these jobs anew and start the timer."""
        for job in jobs:
            self.renew_lease(job)
        self._thread.start()

    def close(self) -> None:
        """Stop the timer. No job is stopped."""
        with self._changed:
            self._closing = True
            self._thread.stop()
            self._changed.notify()
        self._thread.join()

    def renew_lease(self, job: str) -> None:
        """Let the lease end `LEASE_SECONDS` from now."""
        with self._changed:
            self._until[job] = self._now() + LEASE_SECONDS
            # Only the first lease wakes the timer: later ones end later than its next look.
            if len(self._until) == 1:
                self._changed.notify()

    def drop_leases(self, jobs: Iterable[str]) -> None:
        """Remove the leases of jobs that have ended."""
        with self._changed:
            for job in jobs:
                self._until.pop(job, None)

    @contextmanager
    def hold_lease(self, job: str) -> Iterator[None]:
        """Keep the lease of a job while its client is connected and waits."""
        with self._changed:
            self._held[job] = self._held.get(job, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._held[job] -= 1
                if not self._held[job]:
                    del self._held[job]
                if job in self._until:
                    self._until[job] = self._now() + LEASE_SECONDS
                    self._changed.notify()

    def take_expired(self) -> tuple[list[str], float | None]:
        """Remove and return the jobs whose leases have ended.

        Returns:
            The jobs, and the seconds until the next look; None while there are no leases.
        """
        now = self._now()
        with self._changed:
            if self._next_look is not None and now - self._next_look >= LATE_SECONDS:
                self._until = dict.fromkeys(self._until, now + LEASE_SECONDS)
            ended = list[str]()
            seconds = TICK_SECONDS
            for job, until in self._until.items():
                if job in self._held:
                    continue
                if until <= now:
                    ended.append(job)
                else:
                    seconds = min(seconds, until - now)
            for job in ended:
                del self._until[job]
            if not self._until:
                self._next_look = None
                return ended, None
            self._next_look = now + seconds
            return ended, seconds

    def _loop(self) -> None:
        while not self._closing:
            with mark_busy():
                ended, seconds = self.take_expired()
                if ended:
                    self._end(ended)
                    continue
            with self._changed:
                if not self._closing:
                    self._changed.wait(seconds)
            self._thread.mark_well()

    def _end(self, jobs: list[str]) -> None:
        try:
            self._expired(jobs)
        except BaseException:
            # Jobs whose end could not be written are due again, unless a client came back.
            with self._changed:
                for job in jobs:
                    self._until.setdefault(job, self._now())
                self._next_look = None
            raise
