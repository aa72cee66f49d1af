"""The bounded set of threads in which the slow steps of jobs run, each under the lock of its job."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpupool.agent.held import Held
from gpupool.agent.supervisor import SupervisorError
from gpupool.agent.watch import Watch
from gpupool.base.supervised import supervised_step

PARALLEL_STARTS = 8
#: Seconds after an unexpected error until a job is looked at again: most shortages are over by then.
AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)


class Crew:
    """`look_again` is the step for a job whose supervisor went away in the middle of a word, `failed` the one for a
    job of which a step failed unexpectedly.
    """

    def __init__(
        self,
        watch: Watch,
        look_again: Callable[[Held], None],
        failed: Callable[[Held, BaseException], None],
    ) -> None:
        self._watch, self._look_again, self._failed = watch, look_again, failed
        self._workers = ThreadPoolExecutor(PARALLEL_STARTS, thread_name_prefix="agent-start")
        self.closing = threading.Event()

    def close(self) -> None:
        self.closing.set()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        self._workers.shutdown(wait=True)

    def submit(self, step: Callable[..., None], held: Held, *arguments: Any) -> None:
        self._queue(self.guarded, step, held, *arguments)

    def _look_soon(self, held: Held) -> None:
        """Once for each job: what fails a second time is not worth a thread that waits for it."""
        if not self.closing.wait(AGAIN_SECONDS):
            self.guarded(self._look_again, held)

    def _queue(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            self._workers.submit(work, *arguments)
        except RuntimeError as error:
            # Closing; or no thread could be made: then the step is queued, and the next one that comes brings a thread.
            if not self.closing.is_set():
                log.warning("a step of a job waits for a thread: %s", error)

    def guarded(self, step: Callable[..., None], held: Held, *arguments: Any) -> None:
        with held.lock, supervised_step("agent-start"):
            self.guard(step, held, *arguments)

    def guard(self, step: Callable[..., None], held: Held, *arguments: Any) -> None:
        """One job's trouble must not end the thread that serves them all.

        A supervisor that went away in the middle of a word has most likely ended: look at once. What else
        fails is tried again when jobs are tended.
        """
        try:
            step(held, *arguments)
        except SupervisorError as error:
            log.info("job %s: %s", held.checkpoint.job, error)
            held.hang_up(self._watch)
            self.submit(self._look_again, held)
        except Exception as error:
            log.exception("job %s: %s", held.checkpoint.job, error)
            self._end_after(held, error)

    def _end_after(self, held: Held, error: Exception) -> None:
        """What fails here as well is tried again in a moment, and then when jobs are tended."""
        if not held.again:
            held.again = True
            self._queue(self._look_soon, held)
        try:
            held.hang_up(self._watch)
            self._failed(held, error)
        except Exception as again:
            log.exception("job %s could not be ended after an error: %s", held.checkpoint.job, again)
