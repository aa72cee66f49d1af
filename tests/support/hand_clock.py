"""A monotonic clock that a test moves by hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """In seconds; called as `time.monotonic` is."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
