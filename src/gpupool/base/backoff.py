"""Pauses between the attempts of a retry loop."""

from __future__ import annotations

from collections.abc import Callable

#: Seconds before the first repeat.
FIRST_PAUSE_SECONDS = 0.05
#: Seconds; no pause grows beyond it.
LAST_PAUSE_SECONDS = 5.0


class Backoff:
    """Pauses that double from `first_seconds` up to `last_seconds`.

    Each pause is shortened by a random part of up to one half, so that clients that failed together
    do not retry together. Belongs to one thread or task; it computes pauses and never sleeps.
    """

    def __init__(
        self,
        random: Callable[[], float],
        *,
        first_seconds: float = FIRST_PAUSE_SECONDS,
        last_seconds: float = LAST_PAUSE_SECONDS,
    ) -> None:
        """Start with the shortest pause.

        Args:
            random: Returns a number from 0 to 1 (`random.random`); tests pass a constant.
            first_seconds: The first pause, and the one after `reset`.
            last_seconds: No pause is longer.
        """
        self._random = random
        self._first_seconds = first_seconds
        self._last_seconds = last_seconds
        self._next_seconds = first_seconds

    def pause(self) -> float:
        """Return the seconds to wait before the next attempt, and double the pause after it."""
        seconds = self._next_seconds
        self._next_seconds = min(seconds * 2, self._last_seconds)
        return seconds * (1 - self._random() / 2)

    def reset(self) -> None:
        """Begin with the shortest pause again; call it after a success."""
        self._next_seconds = self._first_seconds
