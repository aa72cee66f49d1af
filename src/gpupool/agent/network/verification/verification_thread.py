"""The thread that verifies networks beside the watch over the daemons."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.verification.verifier import NetworkVerifier
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.wire.network.promises import NetworkVerificationReport, NetworkVerificationWork

#: Seconds that one verification may take.
_MOST_SECONDS = 120.0


class VerificationThread:
    """Does one verification after another, and keeps the report of the last one."""

    def __init__(self, files: EngineFiles, wake: Callable[[], None]) -> None:
        """Make the thread; it starts with the first work.

        Args:
            wake: called when a report is there; never blocks.
        """
        self._verifier = NetworkVerifier(files)
        self._wake = wake
        self._news = threading.Condition()
        self._work: NetworkVerificationWork | None = None
        self._last = ""
        self._report: NetworkVerificationReport | None = None
        self._is_closing = False
        self._thread = SupervisedThread("network-verification", self._run)

    def apply_work(self, work: NetworkVerificationWork | None) -> None:
        """Begin a verification that is new. Never blocks."""
        with self._news:
            if work is None or work.id == self._last:
                return
            self._last = work.id
            self._work = work
            self._news.notify()
        if not self._thread.is_alive():
            self._thread.start()

    def get_report(self) -> NetworkVerificationReport | None:
        with self._news:
            return self._report

    def close(self) -> None:
        """End after the verification that runs. Idempotent."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.stop()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while (work := self._take_work()) is not None:
            with mark_busy(_MOST_SECONDS):
                report = self._verifier.run(work)
            with self._news:
                self._report = report
            self._thread.mark_well()
            self._wake()

    def _take_work(self) -> NetworkVerificationWork | None:
        """Wait for work; None when closing."""
        with self._news:
            while self._work is None and not self._is_closing:
                self._news.wait()
            work = self._work
            self._work = None
            return None if self._is_closing else work
