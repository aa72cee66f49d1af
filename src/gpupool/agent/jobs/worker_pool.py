"""The bounded set of threads in which the slow steps of jobs run, each under its job's lock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from gpupool.agent.jobs.local_allocation import LocalAllocation
from gpupool.base.supervision import supervised_step

#: Threads. A start takes tens of milliseconds, most of them in the supervisor's own process.
PARALLEL_STARTS: Final = 8
#: Seconds until a job is looked at again after an unexpected error: most shortages are over then.
RETRY_SECONDS: Final = 1.0
#: The name under which /metrics counts failed steps.
STEP_NAME: Final = "agent-start"

log = logging.getLogger(__name__)


class WorkerPool:
    """Runs steps of jobs. One step of a job runs at a time. `closing` is set once by `close`."""

    def __init__(self, handle_error: Callable[[LocalAllocation, Exception], None]) -> None:
        """Make the pool. Threads are made when steps come.

        Args:
            handle_error: Called in the worker's thread, under the job's lock, with each error that
                a step raises. The error of one job must not end the thread that serves all jobs.
        """
        self._handle_error = handle_error
        self._workers = ThreadPoolExecutor(PARALLEL_STARTS, thread_name_prefix=STEP_NAME)
        self.closing = threading.Event()
        self._timers: set[threading.Timer] = set()

    def close(self) -> None:
        """Start no further step. Steps that wait in the queue are dropped."""
        self.closing.set()
        for timer in list(self._timers):
            timer.cancel()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Block until the steps that have begun are done."""
        self._workers.shutdown(wait=True)

    def submit(
        self, step: Callable[..., None], allocation: LocalAllocation, *arguments: Any
    ) -> None:
        """Queue a step of a job. Never blocks."""
        self._queue(self.run_step, step, allocation, *arguments)

    def submit_later(
        self, step: Callable[[LocalAllocation], None], allocation: LocalAllocation
    ) -> None:
        """Queue a step that begins after `RETRY_SECONDS`. It occupies a thread meanwhile."""
        self._queue(self._run_after_pause, step, allocation)

    def submit_after(
        self,
        seconds: float,
        step: Callable[..., None],
        allocation: LocalAllocation,
        *arguments: Any,
    ) -> None:
        """Queue a step after some time, in which it occupies no thread of the pool.

        It does not begin once the pool is closing: the next agent asks again.
        """

        def begin() -> None:
            self._timers.discard(timer)
            self.submit(step, allocation, *arguments)

        timer = threading.Timer(seconds, begin)
        timer.daemon = True
        self._timers.add(timer)
        timer.name = f"{STEP_NAME}-timer"
        timer.start()

    def run_step(
        self, step: Callable[..., None], allocation: LocalAllocation, *arguments: Any
    ) -> None:
        """Run a step in this thread. Blocks for the job's lock."""
        with allocation.lock, supervised_step(STEP_NAME):
            self.run_locked(step, allocation, *arguments)

    def run_locked(
        self, step: Callable[..., None], allocation: LocalAllocation, *arguments: Any
    ) -> None:
        """Run a step whose caller holds the job's lock."""
        try:
            step(allocation, *arguments)
        except Exception as error:  # noqa: BLE001  every error is handled, and logged there
            self._handle_error(allocation, error)

    def _run_after_pause(
        self, step: Callable[[LocalAllocation], None], allocation: LocalAllocation
    ) -> None:
        if not self.closing.wait(RETRY_SECONDS):
            self.run_step(step, allocation)

    def _queue(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            self._workers.submit(work, *arguments)
        except RuntimeError as error:
            # The pool is closing, or no thread could be made. In the second case the executor has
            # queued the step, and the next step that comes brings a thread.
            if not self.closing.is_set():
                log.warning("a step of a job waits for a thread: %s", error)
