"""The last byte into or out of each job, as the streams of the pool saw it. In memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection


class ActivityBook:
    """Instants of the last activity by job. Thread-safe.

    Lost with the server: what was before `began_ns` is not known, and a ladder without a row counts
    from then.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.began_ns = now_ns()
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._watched = frozenset[str]()
        #: Called when a job is active that is on its ladder; never blocks.
        self.wake: Callable[[], None] = _do_nothing

    def note(self, job: str) -> None:
        """Note that bytes went into or came out of a job. Never blocks for long."""
        with self._lock:
            self._last[job] = self._now_ns()
            is_watched = job in self._watched
        if is_watched:
            self.wake()

    def note_at(self, job: str, at_ns: int) -> None:
        """Note activity that something else has told of; an earlier one than is known is dropped."""
        with self._lock:
            self._last[job] = max(at_ns, self._last.get(job, 0))

    def find(self, job: str) -> int | None:
        """Find when a job was active last; None: not since the server began."""
        with self._lock:
            return self._last.get(job)

    def watch_jobs(self, jobs: Collection[str]) -> None:
        """Wake at the activity of these jobs, and of no others."""
        with self._lock:
            self._watched = frozenset(jobs)

    def keep_only(self, jobs: Collection[str]) -> None:
        """Forget all other jobs."""
        known = frozenset(jobs)
        with self._lock:
            self._last = {job: at for job, at in self._last.items() if job in known}


def _do_nothing() -> None:
    """Do nothing: no thread waits for activity."""
