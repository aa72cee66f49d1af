"""Measures how long the parts of a piece of work took, for one line in a log."""

from __future__ import annotations

import time
from collections.abc import Callable


class PhaseTimer:
    """Wall and processor seconds between marks. One thread at a time may use it."""

    def __init__(
        self,
        wall: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
    ) -> None:
        self._wall = wall
        self._processor = processor
        self._began = wall()
        # Both clocks: a step that waits shows in wall seconds alone.
        self._last = (self._began, processor())
        self._marks: list[str] = []

    def mark_phase(self, name: str) -> None:
        """Name what was done since the last mark."""
        now = (self._wall(), self._processor())
        self._marks.append(f"{name} {now[0] - self._last[0]:.3f} ({now[1] - self._last[1]:.3f})")
        self._last = now

    def format_text(self) -> str:
        """Format the parts, like `0.310 s: lease 0.120 (0.010), rooms 0.190 (0.030)`.

        The seconds in brackets are processor time.
        """
        return f"{self._last[0] - self._began:.3f} s: {', '.join(self._marks)}"
