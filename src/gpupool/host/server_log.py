"""The server's log: bounded in size, and in how often one line of the code may speak.

`gpupool up -d` gives the server its log as stdout and stderr, so the file is exchanged below the descriptors: what
Python or a library writes there by itself is in it too.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: The log and the one before it are each at most about so large.
MOST_BYTES = 16 << 20
#: One line of the code may write so many records at once, and after that one in so many seconds.
BURST, EVERY_SECONDS = 20, 10.0
#: Lines of the code that are told apart; there are fewer that log.
KINDS = 4096


class RateLimit(logging.Filter):
    """Lets a line of the code speak so often; the next that passes says how many did not."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, str, int], _Budget] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, record.pathname, record.lineno)
        if kind not in self._kinds and len(self._kinds) >= KINDS:
            self._kinds.clear()
        budget = self._kinds.setdefault(kind, _Budget(self._clock()))
        if not budget.take(self._clock()):
            return False
        if budget.left_out:
            record.msg = f"{record.getMessage()} ({budget.left_out} more like this were left out)"
            record.args = ()
            budget.left_out = 0
        return True


class _Budget:
    """A bucket of `BURST` that fills by one in `EVERY_SECONDS`."""

    def __init__(self, now: float) -> None:
        self.left_out = 0
        self._tokens, self._at = float(BURST), now

    def take(self, now: float) -> bool:
        self._tokens = min(float(BURST), self._tokens + (now - self._at) / EVERY_SECONDS)
        self._at = now
        if self._tokens < 1.0:
            self.left_out += 1
            return False
        self._tokens -= 1.0
        return True


class Rotating(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr; where that is the log file, begins a new one when it has grown too large."""

    def __init__(self, file: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(sys.stderr)
        self._file, self._most_bytes = file, most_bytes

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        with suppress(OSError):  # no space, no right: the old file goes on, and the server with it
            self._rotate()

    def _rotate(self) -> None:
        descriptor = self.stream.fileno()
        now = os.fstat(descriptor)
        if now.st_size < self._most_bytes or not _is_same(now, self._file):
            return
        os.replace(self._file, self._file.with_name(f"{self._file.name}.1"))
        fresh = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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


def set_up(file: Path) -> None:
    """Log to stderr from INFO on."""
    handler = Rotating(file)
    handler.addFilter(RateLimit())
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)  # its set-up is no news to who starts a pool
