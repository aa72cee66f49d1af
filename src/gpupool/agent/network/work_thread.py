"""A thread for work that takes long, beside the watch over the daemons: verifications and drills."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread

#: Seconds that one piece of work may take.
_MOST_SECONDS = 120.0


class NumberedWork(Protocol):
    """Work with an id, so that none is done twice."""

    @property
    def id(self) -> str: ...


Work = TypeVar("Work", bound=NumberedWork)
Report = TypeVar("Report")


class WorkThread(Generic[Work, Report]):
    """Does one piece of work after another, and keeps the report of the last one."""

    def __init__(self, name: str, run: Callable[[Work], Report], wake: Callable[[], None]) -> None:
        """Make the thread; it starts with the first work.

        Args:
            run: does the work; may block for two minutes.
            wake: called when a report is there; never blocks.
        """
        self._do = run
        self._wake = wake
        self._news = threading.Condition()
        self._work: Work | None = None
        self._last = ""
        self._report: Report | None = None
        self._is_closing = False
        self._thread = SupervisedThread(name, self._run)

    def apply_work(self, work: Work | None) -> None:
        """Begin work that is new. Never blocks."""
        with self._news:
            if work is None or work.id == self._last:
                return
            self._last = work.id
            self._work = work
            self._news.notify()
        if not self._thread.is_alive():
            self._thread.start()

    def get_report(self) -> Report | None:
        with self._news:
            return self._report

    def close(self) -> None:
        """End after the work that runs. Idempotent."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.stop()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while (work := self._take_work()) is not None:
            with mark_busy(_MOST_SECONDS):
                report = self._do(work)
            with self._news:
                self._report = report
            self._thread.mark_well()
            self._wake()

    def _take_work(self) -> Work | None:
        """Wait for work; None when closing."""
        with self._news:
            while self._work is None and not self._is_closing:
                self._news.wait()
            work = self._work
            self._work = None
            return None if self._is_closing else work
