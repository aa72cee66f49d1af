"""Leases of attached clients: who keeps asking keeps its share.

They live in memory: while the server is down nobody can renew, so none runs then, and a
server that starts gives every attached job a fresh one. One timer, set for the next end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

LEASE_SECONDS = 15.0


class Leases:
    """Thread-safe. `expired` is called from the timer's thread with the jobs whose lease has ended."""

    def __init__(self, expired: Callable[[list[str]], None], *, now: Callable[[], float] = time.monotonic) -> None:
        self._expired, self._now = expired, now
        self._until: dict[str, float] = {}
        self._held: dict[str, int] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="leases", daemon=True)

    def start(self, jobs: Iterable[str] = ()) -> None:
        for job in jobs:
            self.renew(job)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
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
        """Jobs whose lease has ended, taken off the list; and seconds until the next one may end."""
        now = self._now()
        with self._changed:
            free = {job: until for job, until in self._until.items() if job not in self._held}
            ended = [job for job, until in free.items() if until <= now]
            for job in ended:
                del self._until[job]
            left = [until for job, until in free.items() if job in self._until]
        return ended, (min(left) - now if left else None)

    def _loop(self) -> None:
        while not self._closing:
            ended, seconds = self.due()
            if ended:
                self._expired(ended)
                continue
            with self._changed:
                if not self._closing:
                    self._changed.wait(seconds)
