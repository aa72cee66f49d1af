"""GPU time that containers have used, as their node's agent tells it: every ten minutes, and for good at their end.

A container's running sum goes with what was prepared for it. So before that is undone the sum is put into a file, and
is told until the ledger has let go of the container: an agent that dies meanwhile tells it later.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from gpupool.base.durable import write_durably
from gpupool.kubernetes.reported import MOST_MS, SlotUse

TOLD_SECONDS = 600.0
"""Each time is a write of the node's status, where anything was used since."""
Key = tuple[str, str]


class Spending:
    """`look` says the GPU milliseconds of a container so far, None where nothing counts it. Not thread-safe."""

    def __init__(
        self, file: Path, look: Callable[[str, str], int | None], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._look, self._seconds = file, look, seconds
        self._over = {one.key: one for one in _read(file)}
        self._told: dict[Key, int] = {}
        self._next = seconds() + TOLD_SECONDS

    def so_far(self, prepared: Collection[Key]) -> Mapping[Key, int]:
        """Of those that are prepared, as it is to be told now."""
        if self._seconds() >= self._next:
            self._next = self._seconds() + TOLD_SECONDS
            looked = {key: self._look(*key) for key in prepared}
            self._told = {key: min(spent, MOST_MS) for key, spent in looked.items() if spent is not None}
        return self._told

    def close(self, key: Key, generation: int) -> None:
        """What was prepared for it is undone next. Twice is once."""
        spent = self._look(*key)
        if spent is not None:
            spent = min(spent, MOST_MS)
            self._over[key] = SlotUse(*key, generation=generation, released=True, gpu_ms=spent)
            self._write()

    def over(self, held: Collection[Key], prepared: Collection[Key]) -> list[SlotUse]:
        """What was closed and stands in the ledger still; the rest is forgotten."""
        gone = [key for key in self._over if key not in held]
        for key in gone:
            del self._over[key]
        if gone:
            self._write()
        return [one for key, one in sorted(self._over.items()) if key not in prepared]

    def _write(self) -> None:
        write_durably(self._file, json.dumps([one.to_json() for one in self._over.values()]).encode())


def _read(file: Path) -> Iterable[SlotUse]:
    """What an agent before this one had closed."""
    try:
        return [SlotUse.from_json(one) for one in json.loads(file.read_text())]
    except (FileNotFoundError, ValueError, KeyError):
        return []
