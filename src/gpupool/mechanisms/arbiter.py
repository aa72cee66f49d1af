"""Keeps `gpupool-arbiter` running, which divides the cards' time, and sends it the allocations.

The arbiter runs only while there is an allocation. One that dies is started again and gets all
allocations anew; until then their processes have their static parts of a period, never more. It
ends with its standard input, so none outlives its agent. Protocol: docs/reference/arbiter.md. Knows no
job.
"""

from __future__ import annotations

import logging
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from gpupool.base.backoff import Backoff
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread

#: Seconds to wait for an answer; a caller must not hang on an arbiter that is stopped.
ANSWER_SECONDS: Final = 5.0
#: An arbiter that ran for so many seconds is started again without a growing pause.
STEADY_SECONDS: Final = 10.0
#: Events of the arbiter about a tenant's damaged or forged files, which an operator should see.
_WARNINGS: Final = re.compile("damaged|nonsense|broken-peer|stranger")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShareStatus:
    """What the arbiter knows of one allocation on one card.

    The last three are sums since it joined.

    Attributes:
        owns_ns: what is left of its promise (negative: debt), less `flight_ns`.
        flight_ns: since when its work is in flight and none of it was settled.
        paid_ns: all that it was made to pay.
        alone_ns: time in which no other allocation was seen to want the card.
        ungranted_ns: what it paid, by its own figures, for work that began without a grant.
    """

    allocation: str
    device: int
    owns_ns: int
    paid_ns: int = 0
    flight_ns: int = 0
    alone_ns: int = 0
    ungranted_ns: int = 0


@dataclass
class _ArbiterQuestion:
    command: Sequence[str]
    answered: threading.Event = field(default_factory=threading.Event)
    answer: str = "the arbiter ended"
    shares: list[str] = field(default_factory=list)


class ArbiterProcess:
    """Starts the arbiter and talks to it. Thread-safe; every call returns within seconds.

    Args:
        program: the arbiter's file; None where gpupool-native has none.
        random: source of the pauses' jitter, in [0, 1).
        entered: called in the listening thread with the allocation and the pid of each process
            that took a slot.

    Attributes:
        woken: called there with an allocation of which a program waits because its share is closed;
            again each second while it waits.
    """

    def __init__(
        self,
        program: Path | None,
        random: Callable[[], float],
        entered: Callable[[str, int], None] = lambda allocation, pid: None,
    ) -> None:
        self._program = program
        self._backoff = Backoff(random)
        self._entered = entered
        self.woken: Callable[[str], None] = lambda allocation: None
        self._lock = threading.Lock()
        self._shares: dict[str, tuple[Path, Path]] = {}
        #: Of these, those that the arbiter could not open. They are sent again with each query.
        self._refused: set[str] = set()
        self._process: subprocess.Popen[str] | None = None
        self._asked: deque[_ArbiterQuestion] = deque()
        self._thread: SupervisedThread | None = None
        self._closing = threading.Event()

    def add_share(self, allocation: str, share: Path, usage: Path) -> bool:
        """Divide cards for this allocation from now on. Idempotent.

        Returns:
            Whether an arbiter divides for it now. If not, its processes have their static parts
            until an arbiter runs, which this object retries.
        """
        with self._lock:
            if self._program is None or self._closing.is_set():
                return False
            is_sent = allocation in self._shares and self._process is not None
            if is_sent and allocation not in self._refused:
                return True
            self._shares[allocation] = (share, usage)
            if self._thread is None:
                return self._start_thread()
            asked = self._send_share(allocation)
        return _is_ok(asked)

    def _start_thread(self) -> bool:
        """Start the thread. The caller holds the lock."""
        thread = SupervisedThread("agent-arbiter", self._keep_running)
        try:
            thread.start()
        except RuntimeError as error:
            # The machine has no thread left. The next allocation tries again.
            log.warning("the arbiter could not be started: %s", error)
            return False
        self._thread = thread
        return True

    def notify_change(self, allocation: str) -> bool:
        """Tell the arbiter that limits were written; returns whether they are in force now."""
        with self._lock:
            asked = self._send_line("changed", allocation) if allocation in self._shares else None
        return _is_ok(asked)

    def remove_share(self, allocation: str) -> None:
        """Forget an allocation, before its files are removed. The last one ends the arbiter."""
        with self._lock:
            if self._shares.pop(allocation, None) is None:
                return
            self._refused.discard(allocation)
            asked = self._send_line("remove", allocation)
            if not self._shares:
                self._end_process()
        _is_ok(asked)

    def query_status(self) -> tuple[int, tuple[ShareStatus, ...]] | None:
        """Return the arbiter's pid and the state of each allocation on each card.

        Blocks until it answers, 5 s at most; None without an answer.
        """
        with self._lock:
            process = self._process
            for allocation in self._refused:
                self._send_share(allocation)
            asked = self._send_line("status") if process is not None else None
        if process is None or asked is None or not _is_ok(asked):
            return None
        return process.pid, tuple(_parse_share_status(line) for line in asked.shares)

    def find_pid(self) -> int | None:
        """Return the arbiter's pid; None while none runs."""
        with self._lock:
            return self._process.pid if self._process else None

    def close(self) -> None:
        """End the arbiter. Allocations keep what the grants say until their leases run out."""
        self._closing.set()
        with self._lock:
            self._end_process()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, at most `seconds`."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    # One thread from the first allocation to the last.

    def _keep_running(self) -> None:
        while (process := self._start_with_retries()) is not None:
            began = time.monotonic()
            if process.stdout is not None:
                self._read_lines(process.stdout)
            status = process.wait()
            with self._lock:
                if self._process is process:
                    self._process = None
                self._drop_questions()
                again = bool(self._shares) and not self._closing.is_set()
            if time.monotonic() - began >= STEADY_SECONDS:
                self._backoff.reset()
            if again:
                log.warning("the arbiter ended with status %d; it is started again", status)
                self._closing.wait(self._backoff.pause())

    def _start_with_retries(self) -> subprocess.Popen[str] | None:
        """Start the arbiter, and retry while the machine is short of memory or descriptors."""
        while True:
            try:
                with mark_busy():
                    return self._start_process()
            except OSError as error:
                pause = self._backoff.pause()
                log.warning("the arbiter could not be started, again in %.2f s: %s", pause, error)
                self._closing.wait(pause)

    def _start_process(self) -> subprocess.Popen[str] | None:
        """Start the arbiter and send it all allocations; None when there is none any more."""
        with self._lock:
            if self._closing.is_set() or not self._shares or self._program is None:
                self._thread = None
                return None
            self._end_process()  # left by a round that failed unexpectedly
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
            for allocation in self._shares:
                self._send_share(allocation)
            return self._process

    def _read_lines(self, lines: IO[str]) -> None:
        for line in lines:
            kind, _, rest = line.rstrip("\n").partition("\t")
            if kind in ("ok", "error") or line.startswith(("ok ", "error ")):
                self._take_answer(line.rstrip("\n"))
            elif kind == "share":
                self._take_share(line.rstrip("\n"))
            elif kind == "lost":
                log.warning(
                    "arbiter: %s lines were lost: it was not read for too long", rest.strip()
                )
                with self._lock:
                    self._drop_questions()
            elif kind == "event" and (words := rest.split("\t"))[1:2] == ["process"]:
                self._entered(words[0], int(words[2]))
            elif kind == "event" and words[1:2] == ["wake"]:
                self.woken(words[0])
            elif kind == "event" and _WARNINGS.search(rest):
                log.warning("arbiter: %s", rest.replace("\t", " "))

    def _take_answer(self, line: str) -> None:
        said, *command = line.split("\t")[:3]
        with self._lock:
            if not self._note_refusal(said, command):
                log.warning("arbiter: %s", line.replace("\t", " "))
            # The arbiter drops answers that are not read. The next answer must not go to a question
            # whose own was dropped, nor must all that follow.
            if not any(_is_answer(one, command) for one in self._asked):
                return
            while not _is_answer(asked := self._asked.popleft(), command):
                asked.answered.set()
            asked.answer = line
            asked.answered.set()

    def _note_refusal(self, said: str, command: Sequence[str]) -> bool:
        """Return whether an answer is no news for people. The caller holds the lock."""
        if said == "ok":
            self._refused.difference_update(command[1:])
            return True
        known = command[0] == "add" and command[1] in self._refused
        if command[0] == "add" and command[1] in self._shares:
            self._refused.add(command[1])
        return known

    def _take_share(self, line: str) -> None:
        with self._lock:
            for asked in self._asked:
                if asked.command[0] == "status":
                    asked.shares.append(line)
                    return

    def _send_share(self, allocation: str) -> _ArbiterQuestion | None:
        """Send the files of an allocation. The caller holds the lock."""
        return self._send_line("add", allocation, *map(str, self._shares[allocation]))

    def _send_line(self, *words: str) -> _ArbiterQuestion | None:
        """Send a line. The caller holds the lock, so answers come in the order of the questions."""
        if self._process is None or self._process.stdin is None:
            return None
        asked = _ArbiterQuestion(words)
        try:
            self._process.stdin.write("\t".join(words) + "\n")
        except OSError:
            return None  # it has ended, which the listening thread sees too
        self._asked.append(asked)
        return asked

    def _drop_questions(self) -> None:
        while self._asked:
            self._asked.popleft().answered.set()

    def _end_process(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError as error:
                log.info("the arbiter had ended: %s", error)
            self._process = None


def _is_ok(asked: _ArbiterQuestion | None) -> bool:
    return (
        asked is not None and asked.answered.wait(ANSWER_SECONDS) and asked.answer.startswith("ok")
    )


def _is_answer(asked: _ArbiterQuestion, command: Sequence[str]) -> bool:
    return list(asked.command[:2]) == list(command)


def _parse_share_status(line: str) -> ShareStatus:
    fields = line.split("\t")
    paid, flight, alone, ungranted = (int(field) for field in fields[10:14])
    return ShareStatus(fields[1], int(fields[2]), int(fields[7]), paid, flight, alone, ungranted)
