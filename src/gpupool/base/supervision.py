"""Supervises threads and tasks, so that none ends unnoticed (docs/decisions/0014).

A body is called until it returns. One that raises is logged, counted and called again after a pause
that doubles. One that keeps failing for `body_record.PATIENCE_SECONDS` cannot recover: the process
is restarted with fresh descriptors and memory. An outage (a locked store, a full disk) is waited
for without end. A body that hangs is found by `silence`. Must not know what the bodies do.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gpupool.base.backoff import Backoff
from gpupool.base.body_record import BodyRecord, BodyTrouble, is_outage
from gpupool.base.silence import ROUND_SECONDS, BodyBeat, BodyPulse, SilentBody, enter_body

#: Seconds between two beats of an event loop.
LOOP_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


def _log_end(name: str) -> None:
    log.critical("%s cannot go on", name)


class BodyRegister:
    """Every supervised body of a process. Thread-safe.

    Attributes:
        end_process: Called with the name of a body that cannot recover; set by entry points.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[int, BodyRecord] = {}
        self._failures: dict[str, int] = {}
        self.end_process: Callable[[str], None] = _log_end
        self.pulse = BodyPulse(lambda name: self.end_process(name))

    def add(self, record: BodyRecord) -> None:
        """Add a body."""
        with self._lock:
            self._records[id(record)] = record
            self._failures.setdefault(record.name, 0)

    def discard(self, record: BodyRecord) -> None:
        """Remove a body that has ended. Idempotent."""
        with self._lock:
            self._records.pop(id(record), None)

    def count_failure(self, name: str) -> None:
        """Count a failure of the body of that name."""
        with self._lock:
            self._failures[name] = self._failures.get(name, 0) + 1

    def count_failures(self) -> dict[str, int]:
        """Return how often each body has failed since the process began, by name."""
        with self._lock:
            return dict(self._failures)

    def list_names(self) -> list[str]:
        """List the bodies that run or are called again."""
        with self._lock:
            return sorted({record.name for record in self._records.values()})

    def list_silent(self) -> list[SilentBody]:
        """List the bodies whose round takes too long."""
        return self.pulse.list_silent()

    def list_troubles(self) -> list[BodyTrouble]:
        """List the bodies that do not work now: they fail, have ended, or are silent."""
        with self._lock:
            records = list(self._records.values())
        troubles = []
        for record in records:
            trouble = record.find_trouble()
            if trouble is not None:
                troubles.append(trouble)
        for silence in self.list_silent():
            troubles.append(BodyTrouble(silence.name, silence.text, dead=False))
        return troubles


register = BodyRegister()


class SupervisedThread:
    """A daemon thread whose body is called until it returns."""

    def __init__(
        self,
        name: str,
        body: Callable[[], None],
        *,
        known: BodyRegister = register,
        clock: Callable[[], float] = time.monotonic,
        random_part: Callable[[], float] = random.random,
    ) -> None:
        """Make the thread. `body` may call `well` after each good round."""
        self.name = name
        self._body = body
        self._known = known
        self._record = BodyRecord(name, clock)
        self._backoff = Backoff(random_part)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError where none can be made."""
        self._known.add(self._record)
        try:
            self._thread.start()
        except RuntimeError:
            self._known.discard(self._record)
            raise

    def stop(self) -> None:
        """Call the body no more and end a pause. The owner has to end the body itself."""
        self._stopping.set()

    def join(self, seconds: float | None = None) -> None:
        """Stop, and wait for the end of the thread, for at most `seconds`."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def mark_well(self) -> None:
        """Note that the body works: its earlier failures are over."""
        self._record.mark_well()
        self._backoff.reset()

    def _run(self) -> None:
        beat = BodyBeat(self.name, self._known.pulse)
        enter_body(beat)
        self._known.pulse.add(beat)
        try:
            self._supervise()
        finally:
            self._known.pulse.discard(beat)

    def _supervise(self) -> None:
        try:
            while not self._stopping.is_set() and self._call_body():
                pass
        # SystemExit in a thread ends it without a trace: here it ends the process, in the log.
        except BaseException as error:
            self._record.record_end(error)
            self._known.count_failure(self.name)
            log.critical("%s ended by %s", self.name, type(error).__name__, exc_info=error)
            self._known.end_process(self.name)
            return
        self._known.discard(self._record)

    def _call_body(self) -> bool:
        """Call the body once; return whether to call it again."""
        self._record.begin()
        try:
            self._body()
        except Exception as error:  # noqa: BLE001  logged by `_handle_failure`
            return self._handle_failure(error)
        return False

    def _handle_failure(self, error: Exception) -> bool:
        self._known.count_failure(self.name)
        if not self._record.record_failure(error):
            log.critical("%s cannot go on", self.name, exc_info=error)
            self._known.end_process(self.name)
            # The process is about to end: until it does, the body must not be called again.
            self._stopping.wait()
            return False
        pause = self._backoff.pause()
        log.error(
            "%s failed, again in %.2f s: %s",
            self.name,
            pause,
            error,
            exc_info=_worth_a_trace(error),
        )
        self._stopping.wait(pause)
        return True


async def supervised_task(
    name: str, body: Callable[[], Awaitable[None]], *, known: BodyRegister = register
) -> None:
    """Call a coroutine until it returns, as `SupervisedThread` does. Make a task of it.

    It ends when the body returns or the task is cancelled.
    """
    record = BodyRecord(name, time.monotonic)
    backoff = Backoff(random.random)
    beat = BodyBeat(name, known.pulse)
    enter_body(beat)
    known.add(record)
    known.pulse.add(beat)
    try:
        while True:
            record.begin()
            try:
                await body()
                return
            except Exception as error:
                known.count_failure(name)
                if not record.record_failure(error):
                    log.critical("%s cannot go on", name, exc_info=error)
                    known.end_process(name)
                pause = backoff.pause()
                log.error(
                    "%s failed, again in %.2f s: %s",
                    name,
                    pause,
                    error,
                    exc_info=_worth_a_trace(error),
                )
                await asyncio.sleep(pause)
    finally:
        known.pulse.discard(beat)
        known.discard(record)


async def watched_task(
    name: str, body: Callable[[], Awaitable[None]], *, known: BodyRegister = register
) -> None:
    """Run a coroutine of a task group and find out if it hangs. What it raises ends the group.

    Make a task of its own of it: two tasks that share a beat would end each other's rounds.
    """
    record = BodyRecord(name, time.monotonic)
    beat = BodyBeat(name, known.pulse)
    enter_body(beat)
    known.add(record)
    known.pulse.add(beat)
    try:
        await body()
    finally:
        known.pulse.discard(beat)
        known.discard(record)


async def beating_loop(*, known: BodyRegister = register) -> None:
    """Find out if the event loop is blocked, until cancelled: all of its tasks hang then."""
    beat = BodyBeat("event-loop", known.pulse)
    known.pulse.add(beat)
    try:
        while True:
            with beat.mark_busy(ROUND_SECONDS):
                await asyncio.sleep(LOOP_SECONDS * known.pulse.scale)
    finally:
        known.pulse.discard(beat)


@contextmanager
def supervised_step(
    name: str, seconds: float = ROUND_SECONDS, *, known: BodyRegister = register
) -> Iterator[None]:
    """Mark a piece of work in a thread of a pool; it counts as silent after `seconds`."""
    beat = BodyBeat(name, known.pulse)
    known.pulse.add(beat)
    try:
        with beat.mark_busy(seconds):
            yield
    finally:
        known.pulse.discard(beat)


def _worth_a_trace(error: Exception) -> BaseException | None:
    """An outage says all in a line; anything else is a defect until it is understood."""
    return None if is_outage(error) else error
