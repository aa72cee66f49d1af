"""GPU time of a container, and what became of its promise of compute: shape and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: The most that is reported of one container, in milliseconds: its processes could write any number
#: into their usage page.
MOST_MS = 1 << 48


class GpuTime(NamedTuple):
    """Running sums of one container since it began, in milliseconds over all its cards.

    `borrowed_ms` is GPU time beyond the promise; `denied_ms` is promised time that passed while the
    container waited for a card. None: no arbiter has counted it.
    """

    used_ms: int
    borrowed_ms: int | None = None
    denied_ms: int | None = None

    def limit_sums(self) -> GpuTime:
        """Return the sums as they may be reported."""
        return GpuTime(
            min(self.used_ms, MOST_MS),
            _limit(self.borrowed_ms),
            _limit(self.denied_ms),
        )

    def to_json(self) -> dict[str, int]:
        """Return the fields that it adds to its container's."""
        found = {"gpuMs": self.used_ms}
        if self.borrowed_ms is not None:
            found["borrowedMs"] = self.borrowed_ms
        if self.denied_ms is not None:
            found["deniedMs"] = self.denied_ms
        return found

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> GpuTime | None:
        """Read it from its container's fields; None where nothing counts it."""
        if read.get("gpuMs") is None:
            return None
        return cls(read["gpuMs"], read.get("borrowedMs"), read.get("deniedMs"))


def _limit(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else min(milliseconds, MOST_MS)
