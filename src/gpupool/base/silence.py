"""Finds supervised bodies (threads and tasks) that hang without raising (docs/decisions/0014).

A body puts `with busy(60): ...` around each round of its work. A round that takes longer makes the
body silent, which `/healthz`, `/metrics` and `gpupool doctor` report. After `PATIENCE_SECONDS` more
the process is restarted; except where the thread is blocked in the kernel, since that would block
the end of the process as well. A body that waits for something to do is not busy. Must not know
what the bodies do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.running_clock import STEP_SECONDS, RunningClock

#: Seconds of silence after which a body cannot go on: no honest round takes so much longer than it
#: says.
PATIENCE_SECONDS: Final = 240.0
#: What a round of most bodies may take, also on a machine that is far too busy.
ROUND_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SilentBody:
    """A body whose round takes too long.

    Attributes:
        name: The body.
        seconds: How long the round is over its bound.
        bound: How long the round may take, in seconds.
        thread: The kernel's number of the thread.
    """

    name: str
    seconds: float
    bound: float
    thread: int

    @property
    def text(self) -> str:
        """The silence as a text for people."""
        since = self.bound + self.seconds
        return f"silent since {since:.0f} s: one round of it takes at most {self.bound:g} s"


class BodyBeat:
    """When the round of one body began and how long it may take.

    Written by the body, read by any thread.
    """

    def __init__(self, name: str, pulse: BodyPulse) -> None:
        self.name = name
        self._pulse = pulse
        self._round: tuple[float, float, int] | None = None

    @contextmanager
    def mark_busy(self, seconds: float) -> Iterator[None]:
        """Mark a round that may take so many seconds. An inner round has its own bound."""
        outer = self._round
        self._round = (self._pulse.clock(), seconds, threading.get_native_id())
        self._pulse.start_clock()
        try:
            yield
        finally:
            self._round = outer

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return self._round is not None

    def find_silence(self) -> SilentBody | None:
        """Return the silence of a round that takes too long, or None."""
        known = self._round
        if known is None:
            return None
        began, bound, thread = known
        late = self._pulse.clock() - began - bound * self._pulse.scale
        return SilentBody(self.name, late, bound * self._pulse.scale, thread) if late >= 0 else None


class BodyPulse:
    """Drives the clock while a body is busy, and ends the process of one that hangs. Thread-safe.

    Attributes:
        scale: Multiplies every bound; tests of whole processes wait less.
    """

    def __init__(self, end: Callable[[str], None], clock: RunningClock | None = None) -> None:
        self.clock = clock or RunningClock()
        self.scale = 1.0
        self._end = end
        self._lock = threading.Lock()
        self._beats: dict[int, BodyBeat] = {}
        self._ended: set[str] = set()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, beat: BodyBeat) -> None:
        """Add a body."""
        with self._lock:
            self._beats[id(beat)] = beat

    def discard(self, beat: BodyBeat) -> None:
        """Remove a body. Idempotent."""
        with self._lock:
            self._beats.pop(id(beat), None)

    def list_silent(self) -> list[SilentBody]:
        """List the bodies whose round takes too long."""
        with self._lock:
            beats = list(self._beats.values())
        return [found for beat in beats if (found := beat.find_silence()) is not None]

    def start_clock(self) -> None:
        """Start the clock for a body that is busy. Cheap if the clock runs already."""
        if not self._due.is_set():
            self._due.set()
            self._begin()

    def end_hung(self) -> None:
        """End the process of a body that is silent for too long; once for each."""
        found = self.list_silent()
        self._ended &= {silence.name for silence in found}
        for silence in found:
            if silence.seconds < PATIENCE_SECONDS * self.scale or silence.name in self._ended:
                continue
            # A thread in state D ignores SIGKILL: the process could not end.
            if not _is_in_kernel(silence.thread):
                self._ended.add(silence.name)
                log.critical("%s is %s", silence.name, silence.text)
                self._end(silence.name)

    def _begin(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            thread = threading.Thread(target=self._run, name="pulse", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no thread is left now: the next round tries again
                log.warning("the clock of supervised threads could not be started: %s", error)
                self._due.clear()
                return
            self._thread = thread

    def _run(self) -> None:
        waits = threading.Event()
        while True:
            self._due.wait()
            self.clock.step()
            self._due.clear()
            while self._has_busy_body():
                self._due.set()
                waits.wait(STEP_SECONDS)
                self.clock.step()
                try:
                    self.end_hung()
                except Exception:
                    log.exception("supervised threads could not be looked at")
                self._due.clear()

    def _has_busy_body(self) -> bool:
        with self._lock:
            return any(beat.is_busy for beat in self._beats.values())


_current: ContextVar[BodyBeat | None] = ContextVar("gpupool_beat", default=None)


def enter_body(beat: BodyBeat) -> None:
    """Make the calling thread or task that body from now on."""
    _current.set(beat)


@contextmanager
def mark_busy(seconds: float = ROUND_SECONDS) -> Iterator[None]:
    """Mark one round of the supervised body that calls this. Elsewhere it does nothing."""
    beat = _current.get()
    if beat is None:
        yield
        return
    with beat.mark_busy(seconds):
        yield


def read_scale(environ: Mapping[str, str]) -> float:
    """Read GPUPOOL_PATIENCE, by which tests shorten all bounds; 1 outside of tests.

    Raises:
        ValueError: The value is no number.
    """
    if environ.get("GPUPOOL_FAULTS_ALLOWED") != "1":
        return 1.0
    return float(environ.get("GPUPOOL_PATIENCE", "1"))


def _is_in_kernel(thread: int) -> bool:
    """Whether a thread sleeps where SIGKILL does not wake it: state D, as with a dead disk."""
    try:
        text = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "D"
