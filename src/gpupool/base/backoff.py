"""Pauses between the attempts of a retry loop."""

from __future__ import annotations

from collections.abc import Callable

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.05, 5.0


class Backoff:
    """Pauses that double, each shortened by a random part so that many agents do not knock together."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random, self._next = random, FIRST_PAUSE_SECONDS

    def pause(self) -> float:
        seconds, self._next = self._next, min(self._next * 2, LAST_PAUSE_SECONDS)
        return seconds * (1 - self._random() / 2)

    def reset(self) -> None:
        self._next = FIRST_PAUSE_SECONDS
