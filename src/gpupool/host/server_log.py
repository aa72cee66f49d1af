"""Writes the server's log, bounded in size and in the rate of one line of the code.

`gpupool up -d` gives the server its log as stdout and stderr, so rotation replaces the file under
these descriptors: output of Python or of a library is in it too.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: Bytes, about, of the log and of the one before it, each.
MOST_BYTES = 16 << 20
#: Records that one line of the code may write at once, and seconds for each further one.
BURST = 20
EVERY_SECONDS = 10.0
#: Lines of the code that are told apart; there are fewer that log.
KINDS = 4096


class RateLimit(logging.Filter):
    """Limits the records of each line of the code; the next that passes counts those left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, str, int], _LineBudget] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, record.pathname, record.lineno)
        # Forgetting all budgets is cheap and rare; it only lets a few records more pass.
        if kind not in self._kinds and len(self._kinds) >= KINDS:
            self._kinds.clear()
        budget = self._kinds.setdefault(kind, _LineBudget(self._clock()))
        if not budget.take(self._clock()):
            return False
        if budget.left_out:
            record.msg = f"{record.getMessage()} ({budget.left_out} more like this were left out)"
            record.args = ()
            budget.left_out = 0
        return True


class _LineBudget:
    """A bucket of `BURST` that fills by one in `EVERY_SECONDS`."""

    def __init__(self, now: float) -> None:
        self.left_out = 0
        self._tokens = float(BURST)
        self._at = now

    def take(self, now: float) -> bool:
        self._tokens = min(float(BURST), self._tokens + (now - self._at) / EVERY_SECONDS)
        self._at = now
        if self._tokens < 1.0:
            self.left_out += 1
            return False
        self._tokens -= 1.0
        return True


class RotatingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr, and rotates the file behind it once it has grown too large."""

    def __init__(self, file: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(sys.stderr)
        self._file = file
        self._most_bytes = most_bytes

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        # Without space or permission the old file grows on; the server must not fail for its log.
        with suppress(OSError):
            self._rotate_file()

    def _rotate_file(self) -> None:
        descriptor = self.stream.fileno()
        now = os.fstat(descriptor)
        # A terminal, a pipe or a file that an operator moved is not rotated.
        if now.st_size < self._most_bytes or not _is_same(now, self._file):
            return
        os.replace(self._file, self._file.with_name(f"{self._file.name}.1"))
        fresh = os.open(
            self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            for one in {1, descriptor}:
                if _is_same(os.fstat(one), self._file.with_name(f"{self._file.name}.1")):
                    os.dup2(fresh, one)
        finally:
            os.close(fresh)


def _is_same(found: os.stat_result, file: Path) -> bool:
    try:
        there = os.lstat(file)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)


def set_up_log(file: Path) -> None:
    """Log to stderr from INFO on."""
    handler = RotatingHandler(file)
    handler.addFilter(RateLimit())
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Alembic reports its set-up at each start, which tells an operator nothing.
    logging.getLogger("alembic").setLevel(logging.WARNING)
