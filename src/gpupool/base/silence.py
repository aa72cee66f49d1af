"""Bodies that hang without raising: who is busy, for how long that may take, and who is silent (docs/decisions/0014).

A supervised body says `with busy(60): ...` around each round of its work. What takes longer is silent: `/healthz`,
`/metrics` and `gpupool doctor` say so. One that stays silent for `PATIENCE_SECONDS` more cannot go on, and its
process is ended to begin anew; except where the kernel holds the thread, since that would hold the process's end as
well. A body that waits for something to do is not busy. Must not know what the bodies do.
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

#: Seconds of silence after which a body cannot go on: no honest round takes so much longer than it says.
PATIENCE_SECONDS: Final = 240.0
#: What a round of most bodies may take, also on a machine that is far too busy.
ROUND_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Silence:
    """A body whose round takes too long."""

    name: str
    seconds: float
    """Since its bound."""
    bound: float
    thread: int
    """Its number in the kernel."""

    @property
    def text(self) -> str:
        since = self.bound + self.seconds
        return f"silent since {since:.0f} s: one round of it takes at most {self.bound:g} s"


class Beat:
    """When the round of one body began and how long it may take. Written by the body, read by any thread."""

    def __init__(self, name: str, pulse: Pulse) -> None:
        self.name, self._pulse = name, pulse
        self._round: tuple[float, float, int] | None = None

    @contextmanager
    def busy(self, seconds: float) -> Iterator[None]:
        """A round that takes at most so long. One within another is on its own account."""
        outer = self._round
        self._round = (self._pulse.clock(), seconds, threading.get_native_id())
        self._pulse.wake()
        try:
            yield
        finally:
            self._round = outer

    @property
    def is_busy(self) -> bool:
        return self._round is not None

    def silence(self) -> Silence | None:
        known = self._round
        if known is None:
            return None
        began, bound, thread = known
        late = self._pulse.clock() - began - bound * self._pulse.scale
        return Silence(self.name, late, bound * self._pulse.scale, thread) if late >= 0 else None


class Pulse:
    """Drives the clock while any body is busy, and ends the process of one that is silent for too long.

    `scale` multiplies every bound: tests of whole processes wait less. `end` is given the name.
    """

    def __init__(self, end: Callable[[str], None], clock: RunningClock | None = None) -> None:
        self.clock = clock or RunningClock()
        self.scale = 1.0
        self._end = end
        self._lock = threading.Lock()
        self._beats: dict[int, Beat] = {}
        self._ended: set[str] = set()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, beat: Beat) -> None:
        with self._lock:
            self._beats[id(beat)] = beat

    def discard(self, beat: Beat) -> None:
        with self._lock:
            self._beats.pop(id(beat), None)

    def silences(self) -> list[Silence]:
        with self._lock:
            beats = list(self._beats.values())
        return [found for beat in beats if (found := beat.silence()) is not None]

    def wake(self) -> None:
        """Start the clock for a body that is busy. Cheap if the clock runs already."""
        if not self._due.is_set():
            self._due.set()
            self._begin()

    def look(self) -> None:
        """End the process of a body that is silent for too long; once for each."""
        found = self.silences()
        self._ended &= {silence.name for silence in found}
        for silence in found:
            if silence.seconds < PATIENCE_SECONDS * self.scale or silence.name in self._ended:
                continue
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
            while self._is_anyone_busy():
                self._due.set()
                waits.wait(STEP_SECONDS)
                self.clock.step()
                try:
                    self.look()
                except Exception:
                    log.exception("supervised threads could not be looked at")
                self._due.clear()

    def _is_anyone_busy(self) -> bool:
        with self._lock:
            return any(beat.is_busy for beat in self._beats.values())


_current: ContextVar[Beat | None] = ContextVar("gpupool_beat", default=None)


def enter(beat: Beat) -> None:
    """The calling thread or task is that body from here on."""
    _current.set(beat)


@contextmanager
def busy(seconds: float = ROUND_SECONDS) -> Iterator[None]:
    """One round of the supervised body that calls this; nothing for who is not supervised."""
    beat = _current.get()
    if beat is None:
        yield
        return
    with beat.busy(seconds):
        yield


def scale_from(environ: Mapping[str, str]) -> float:
    """`GPUPOOL_PATIENCE`, for tests that cannot wait as long as a pool does; 1 outside of them. Raises ValueError."""
    if environ.get("GPUPOOL_FAULTS_ALLOWED") != "1":
        return 1.0
    return float(environ.get("GPUPOOL_PATIENCE", "1"))


def _is_in_kernel(thread: int) -> bool:
    """Whether it sleeps where not even SIGKILL wakes it (state D: a dead disk, a driver that hangs)."""
    try:
        text = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "D"
