"""Threads and tasks that do not die unseen (docs/decisions/0014).

A body runs until it returns. One that raises is logged, counted and called again after a pause that doubles. One that
keeps failing for `PATIENCE_SECONDS` cannot go on: the process is ended, to be started anew with fresh descriptors and
memory. What only waits for others (a store that is locked, a disk that is full) is waited for without end. One that
hangs is found by `silence`. Must not know what the bodies do.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gpupool.base.backoff import Backoff
from gpupool.base.errors import Unavailable
from gpupool.base.silence import ROUND_SECONDS, Beat, Pulse, Silence, enter

#: Seconds of failing without a break after which a body cannot go on: 20 tries with the pauses of `Backoff`.
PATIENCE_SECONDS: Final = 60.0
#: Seconds that a body has to run for its earlier failures to be over.
STEADY_SECONDS: Final = 10.0
#: Seconds between two beats of an event loop.
LOOP_SECONDS: Final = 1.0
#: Errors that a fresh process would meet as well.
_OUTSIDE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trouble:
    """A body that does not work now, and why."""

    name: str
    text: str
    dead: bool
    """It is not tried again."""


class Record:
    """What is known of one body: how often it failed, since when it fails, whether it is still there."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name, self._clock = name, clock
        self.failures = 0
        self._since: float | None = None
        self._begun: float | None = None
        self._error = ""
        self._dead = False

    def begin(self) -> None:
        self._begun = self._clock()

    def well(self) -> None:
        """It did what it is there for: earlier failures are over."""
        self._since = None

    def fail(self, error: BaseException) -> bool:
        """Count a failure; whether the body may be called again."""
        now = self._clock()
        if self._since is None or (self._begun is not None and now - self._begun >= STEADY_SECONDS):
            self._since = now
        self._begun = None
        self.failures += 1
        self._error = str(error).splitlines()[0] if str(error) else type(error).__name__
        self._dead = not _is_outage(error) and now - self._since >= PATIENCE_SECONDS
        return not self._dead

    def vanish(self, error: BaseException) -> None:
        """It ended by something that is not caught."""
        self.failures += 1
        self._error, self._dead = type(error).__name__, True

    def trouble(self) -> Trouble | None:
        now = self._clock()
        if self._dead:
            return Trouble(self.name, f"ended after {self.failures} failures: {self._error}", dead=True)
        if self._since is None or (self._begun is not None and now - self._begun >= STEADY_SECONDS):
            return None
        return Trouble(self.name, f"fails since {now - self._since:.0f} s: {self._error}", dead=False)


def _is_outage(error: BaseException) -> bool:
    return isinstance(error, Unavailable) or (isinstance(error, OSError) and error.errno in _OUTSIDE)


def _only_say(name: str) -> None:
    log.critical("%s cannot go on", name)


class Register:
    """Every supervised body of a process. Thread-safe.

    `end_process` is called with the name of one that cannot go on; an entry point says what that means.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[int, Record] = {}
        self._failures: dict[str, int] = {}
        self.end_process: Callable[[str], None] = _only_say
        self.pulse = Pulse(lambda name: self.end_process(name))

    def add(self, record: Record) -> None:
        with self._lock:
            self._records[id(record)] = record
            self._failures.setdefault(record.name, 0)

    def discard(self, record: Record) -> None:
        with self._lock:
            self._records.pop(id(record), None)

    def count_failure(self, name: str) -> None:
        with self._lock:
            self._failures[name] = self._failures.get(name, 0) + 1

    def failures(self) -> dict[str, int]:
        """How often each has failed since the process began, by name."""
        with self._lock:
            return dict(self._failures)

    def names(self) -> list[str]:
        """Those that are running or tried again."""
        with self._lock:
            return sorted({record.name for record in self._records.values()})

    def silences(self) -> list[Silence]:
        """Those whose round takes longer than it may."""
        return self.pulse.silences()

    def troubles(self) -> list[Trouble]:
        """Those that do not work now: they fail, have ended, or are silent."""
        with self._lock:
            records = list(self._records.values())
        found = [trouble for record in records if (trouble := record.trouble()) is not None]
        return found + [Trouble(silence.name, silence.text, dead=False) for silence in self.silences()]


register = Register()


class SupervisedThread:
    """A daemon thread whose body is called until it returns. `well` may be called by the body after each good round."""

    def __init__(
        self,
        name: str,
        body: Callable[[], None],
        *,
        known: Register = register,
        clock: Callable[[], float] = time.monotonic,
        random_part: Callable[[], float] = random.random,
    ) -> None:
        self.name, self._body, self._known = name, body, known
        self._record, self._backoff = Record(name, clock), Backoff(random_part)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._known.add(self._record)
        try:
            self._thread.start()
        except RuntimeError:
            self._known.discard(self._record)
            raise

    def stop(self) -> None:
        """Do not call the body again, and do not wait out a pause. The body has to be told by its owner."""
        self._stopping.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end; the body has been told to return, so it is not called again."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def well(self) -> None:
        self._record.well()
        self._backoff.reset()

    def _run(self) -> None:
        beat = Beat(self.name, self._known.pulse)
        enter(beat)
        self._known.pulse.add(beat)
        try:
            self._supervise()
        finally:
            self._known.pulse.discard(beat)

    def _supervise(self) -> None:
        try:
            while not self._stopping.is_set() and self._again():
                pass
        except BaseException as error:
            self._record.vanish(error)
            self._known.count_failure(self.name)
            log.critical("%s ended by %s", self.name, type(error).__name__, exc_info=error)
            self._known.end_process(self.name)
            return
        self._known.discard(self._record)

    def _again(self) -> bool:
        """One call of the body; whether it is to be called again."""
        self._record.begin()
        try:
            self._body()
        except Exception as error:  # noqa: BLE001  logged by `_failed`
            return self._failed(error)
        return False

    def _failed(self, error: Exception) -> bool:
        self._known.count_failure(self.name)
        if not self._record.fail(error):
            log.critical("%s cannot go on", self.name, exc_info=error)
            self._known.end_process(self.name)
            self._stopping.wait()
            return False
        pause = self._backoff.pause()
        log.error("%s failed, again in %.2f s: %s", self.name, pause, error, exc_info=_worth_a_trace(error))
        self._stopping.wait(pause)
        return True


async def supervised_task(name: str, body: Callable[[], Awaitable[None]], *, known: Register = register) -> None:
    """The same for a coroutine: to be made a task of. Ends when the body returns or the task is cancelled."""
    record, backoff = Record(name, time.monotonic), Backoff(random.random)
    beat = Beat(name, known.pulse)
    enter(beat)
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
                if not record.fail(error):
                    log.critical("%s cannot go on", name, exc_info=error)
                    known.end_process(name)
                pause = backoff.pause()
                log.error("%s failed, again in %.2f s: %s", name, pause, error, exc_info=_worth_a_trace(error))
                await asyncio.sleep(pause)
    finally:
        known.pulse.discard(beat)
        known.discard(record)


async def watched_task(name: str, body: Callable[[], Awaitable[None]], *, known: Register = register) -> None:
    """A coroutine of a task group: what it raises ends the group, only that it hangs is found here.

    To be made a task of its own: two tasks that share a beat would end each other's rounds.
    """
    record, beat = Record(name, time.monotonic), Beat(name, known.pulse)
    enter(beat)
    known.add(record)
    known.pulse.add(beat)
    try:
        await body()
    finally:
        known.pulse.discard(beat)
        known.discard(record)


async def beating_loop(*, known: Register = register) -> None:
    """Until it is cancelled, find an event loop that is held up: every task of it hangs then."""
    beat = Beat("event-loop", known.pulse)
    known.pulse.add(beat)
    try:
        while True:
            with beat.busy(ROUND_SECONDS):
                await asyncio.sleep(LOOP_SECONDS * known.pulse.scale)
    finally:
        known.pulse.discard(beat)


@contextmanager
def supervised_step(name: str, seconds: float = ROUND_SECONDS, *, known: Register = register) -> Iterator[None]:
    """A piece of work in a thread of a pool, reported as silent after `seconds`."""
    beat = Beat(name, known.pulse)
    known.pulse.add(beat)
    try:
        with beat.busy(seconds):
            yield
    finally:
        known.pulse.discard(beat)


def _worth_a_trace(error: Exception) -> BaseException | None:
    """An outage says all in a line; anything else is a defect until it is understood."""
    return None if _is_outage(error) else error
