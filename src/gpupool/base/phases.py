"""How long the parts of one piece of work took: a line for the log that says where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable


class Phases:
    """Wall and processor seconds from mark to mark; not thread-safe, but its user may change threads."""

    def __init__(
        self, wall: Callable[[], float] = time.monotonic, processor: Callable[[], float] = time.process_time
    ) -> None:
        self._wall, self._processor = wall, processor
        self._began = wall()
        self._last = (self._began, processor())
        self._marks: list[str] = []

    def mark(self, name: str) -> None:
        """What was done since the last mark is called so."""
        now = (self._wall(), self._processor())
        self._marks.append(f"{name} {now[0] - self._last[0]:.3f} ({now[1] - self._last[1]:.3f})")
        self._last = now

    def text(self) -> str:
        """`0.310 s: lease 0.120 (0.010), rooms 0.190 (0.030)`: of each part, in brackets on the processor."""
        return f"{self._last[0] - self._began:.3f} s: {', '.join(self._marks)}"
