"""Leases of attached clients: who keeps asking keeps its share.

They live in memory: while the server is down nobody can renew, so none runs then, and a
server that starts gives every attached job a fresh one. So does one that stood still: a
process that is stopped, or whose machine is too busy to run it, cannot hear anybody either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread

LEASE_SECONDS = 15.0
#: The timer looks at least so often while there are leases; so late a look means that the server stood still.
TICK_SECONDS, LATE_SECONDS = 1.0, 2.0


class Leases:
    """Thread-safe. `expired` is called from the timer's thread with the jobs whose lease has ended."""

    def __init__(self, expired: Callable[[list[str]], None], *, now: Callable[[], float] = time.monotonic) -> None:
        self._expired, self._now = expired, now
        self._until: dict[str, float] = {}
        self._held: dict[str, int] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._next_look: float | None = None
        self._thread = SupervisedThread("leases", self._loop)

    def start(self, jobs: Iterable[str] = ()) -> None:
        for job in jobs:
            self.renew(job)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._thread.stop()
            self._changed.notify()
        self._thread.join()

    def renew(self, job: str) -> None:
        """The lease now ends LEASE_SECONDS from now."""
        with self._changed:
            self._until[job] = self._now() + LEASE_SECONDS
            if len(self._until) == 1:
                self._changed.notify()

    def drop(self, jobs: Iterable[str]) -> None:
        """The jobs have ended: nobody waits for their leases."""
        with self._changed:
            for job in jobs:
                self._until.pop(job, None)

    @contextmanager
    def holding(self, job: str) -> Iterator[None]:
        """A client is connected and waits: the lease cannot end before it leaves."""
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

    def due(self) -> tuple[list[str], float | None]:
        """Jobs whose lease has ended, taken off the list; and seconds until the next look, None while nobody leases."""
        now = self._now()
        with self._changed:
            if self._next_look is not None and now - self._next_look >= LATE_SECONDS:
                self._until = dict.fromkeys(self._until, now + LEASE_SECONDS)
            free = {job: until for job, until in self._until.items() if job not in self._held}
            ended = [job for job, until in free.items() if until <= now]
            for job in ended:
                del self._until[job]
            seconds = min([TICK_SECONDS, *(until - now for job, until in free.items() if job in self._until)])
            self._next_look = now + seconds if self._until else None
            return ended, seconds if self._until else None

    def _loop(self) -> None:
        while not self._closing:
            with busy():
                ended, seconds = self.due()
                if ended:
                    self._end(ended)
                    continue
            with self._changed:
                if not self._closing:
                    self._changed.wait(seconds)
            self._thread.well()

    def _end(self, jobs: list[str]) -> None:
        """Jobs whose end could not be written are due again."""
        try:
            self._expired(jobs)
        except BaseException:
            with self._changed:
                for job in jobs:
                    self._until.setdefault(job, self._now())
                self._next_look = None
            raise
