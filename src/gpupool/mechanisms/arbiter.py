"""Keeping `gpupool-arbiter` alive, which divides the cards' time between allocations, and telling it which there are.

Runs only while there is an allocation to divide for. An arbiter that dies is started again and told all of them; until
then their processes have their static parts, never more. It ends with its stdin, so none outlives its agent. What it
is told and says: docs/reference/arbiter.md. Knows no job.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from gpupool.base.backoff import Backoff
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread

ANSWER_SECONDS: Final = 5.0
STEADY_SECONDS: Final = 10.0
"""Who lived so long is started again at once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShareStatus:
    """What the arbiter knows of one allocation on one card.

    `owns_ns` is what is left of its promise (negative: debt), less `flight_ns`: since when its work is in flight and
    none of it was settled. `paid_ns` is all that it was made to pay, `alone_ns` the time in which no other allocation
    was seen to want the card; `ungranted_ns` is what it paid, by its own figures, for work that began while the arbiter
    let it begin none. All three since it joined.
    """

    allocation: str
    device: int
    owns_ns: int
    paid_ns: int = 0
    flight_ns: int = 0
    alone_ns: int = 0
    ungranted_ns: int = 0


@dataclass
class _Asked:
    answered: threading.Event = field(default_factory=threading.Event)
    answer: str = "the arbiter ended"
    shares: list[str] = field(default_factory=list)


class Arbiter:
    """`program` is the arbiter's file, None where there is none. Thread-safe; every call returns within seconds.

    `entered` is called in the listening thread with the allocation and the pid of each process that took a slot.
    """

    def __init__(
        self,
        program: Path | None,
        random: Callable[[], float],
        entered: Callable[[str, int], None] = lambda allocation, pid: None,
    ) -> None:
        self._program, self._backoff = program, Backoff(random)
        self._entered = entered
        self._lock = threading.Lock()
        self._shares: dict[str, tuple[Path, Path]] = {}
        self._process: subprocess.Popen[str] | None = None
        self._asked: deque[_Asked] = deque()
        self._thread: SupervisedThread | None = None
        self._closing = threading.Event()

    def add(self, allocation: str, share: Path, usage: Path) -> bool:
        """Divide for this allocation too, from now on; whether it is done for now. Twice is once.

        False says that its processes have their static parts until an arbiter runs, which is seen to.
        """
        with self._lock:
            if self._program is None or self._closing.is_set():
                return False
            if allocation in self._shares and self._process is not None:
                return True
            self._shares[allocation] = (share, usage)
            if self._thread is None:
                return self._begin_to_run()
            asked = self._say("add", allocation, str(share), str(usage))
        return _is_ok(asked)

    def _begin_to_run(self) -> bool:
        """Under the lock. A machine that has no thread to give now may have one for the next allocation."""
        thread = SupervisedThread("agent-arbiter", self._run)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("the arbiter could not be started: %s", error)
            return False
        self._thread = thread
        return True

    def changed(self, allocation: str) -> bool:
        """Its limits were written; whether they are in force now."""
        with self._lock:
            asked = self._say("changed", allocation) if allocation in self._shares else None
        return _is_ok(asked)

    def remove(self, allocation: str) -> None:
        """Forget it, before its files go. Without any allocation left the arbiter ends."""
        with self._lock:
            if self._shares.pop(allocation, None) is None:
                return
            asked = self._say("remove", allocation)
            if not self._shares:
                self._end()
        _is_ok(asked)

    def status(self) -> tuple[int, tuple[ShareStatus, ...]] | None:
        """The pid of the arbiter that answered, and each allocation on each card; None without an answer.

        Blocks until it answers, 5 s at most.
        """
        with self._lock:
            process = self._process
            asked = self._say("status") if process is not None else None
        if process is None or asked is None or not _is_ok(asked):
            return None
        return process.pid, tuple(_share_status(line) for line in asked.shares)

    def pid(self) -> int | None:
        with self._lock:
            return self._process.pid if self._process else None

    def close(self) -> None:
        """End the arbiter. Allocations keep what the grants say until their leases run out."""
        self._closing.set()
        with self._lock:
            self._end()

    def join(self, seconds: float | None = None) -> None:
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    # One thread from the first allocation to the last ------------------------------------------------------

    def _run(self) -> None:
        while (process := self._begun()) is not None:
            began = time.monotonic()
            if process.stdout is not None:
                self._listen(process.stdout)
            status = process.wait()
            with self._lock:
                if self._process is process:
                    self._process = None
                self._drop_asked()
                again = bool(self._shares) and not self._closing.is_set()
            if time.monotonic() - began >= STEADY_SECONDS:
                self._backoff.reset()
            if again:
                log.warning("the arbiter ended with status %d; it is started again", status)
                self._closing.wait(self._backoff.pause())

    def _begun(self) -> subprocess.Popen[str] | None:
        """A machine that is short of memory or descriptors may have some again later."""
        while True:
            try:
                with busy():
                    return self._begin()
            except OSError as error:
                pause = self._backoff.pause()
                log.warning("the arbiter could not be started, again in %.2f s: %s", pause, error)
                self._closing.wait(pause)

    def _begin(self) -> subprocess.Popen[str] | None:
        """Start it and tell it everything; None when there is nothing to divide for any more."""
        with self._lock:
            if self._closing.is_set() or not self._shares or self._program is None:
                self._thread = None
                return None
            self._end()  # of a round that failed unexpectedly
            self._process = subprocess.Popen(
                [self._program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                env={},
                text=True,
                bufsize=1,
                start_new_session=True,
            )
            for allocation, (share, usage) in self._shares.items():
                self._say("add", allocation, str(share), str(usage))
            return self._process

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            kind, _, rest = line.rstrip("\n").partition("\t")
            if kind in ("ok", "error") or line.startswith(("ok ", "error ")):
                self._answer(line.rstrip("\n"))
            elif kind == "share":
                with self._lock:
                    if self._asked:
                        self._asked[0].shares.append(line.rstrip("\n"))
            elif kind == "event" and (words := rest.split("\t"))[1:2] == ["process"]:
                self._entered(words[0], int(words[2]))
            elif kind == "event" and any(word in rest for word in ("damaged", "nonsense", "broken-peer", "stranger")):
                log.warning("arbiter: %s", rest.replace("\t", " "))

    def _answer(self, line: str) -> None:
        if line.startswith("error"):
            log.warning("arbiter: %s", line.replace("\t", " "))
        with self._lock:
            asked = self._asked.popleft() if self._asked else None
        if asked is not None:
            asked.answer = line
            asked.answered.set()

    def _say(self, *words: str) -> _Asked | None:
        """Under the lock, so that answers come in the order of the questions."""
        if self._process is None or self._process.stdin is None:
            return None
        asked = _Asked()
        try:
            self._process.stdin.write("\t".join(words) + "\n")
        except OSError:
            return None  # it has ended; whoever listens to it sees that too
        self._asked.append(asked)
        return asked

    def _drop_asked(self) -> None:
        while self._asked:
            self._asked.popleft().answered.set()

    def _end(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError as error:
                log.info("the arbiter had ended: %s", error)
            self._process = None


def _is_ok(asked: _Asked | None) -> bool:
    return asked is not None and asked.answered.wait(ANSWER_SECONDS) and asked.answer.startswith("ok")


def _share_status(line: str) -> ShareStatus:
    fields = line.split("\t")
    paid, flight, alone, ungranted = (int(field) for field in fields[10:14])
    return ShareStatus(fields[1], int(fields[2]), int(fields[7]), paid, flight, alone, ungranted)
