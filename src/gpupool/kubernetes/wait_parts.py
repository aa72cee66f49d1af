"""Where the waits of pods went, from the watch's word of them to the end of their gate: for metrics and benches.

Only pods that were released by this leader are counted, each once and at its release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

QUEUED, PLACED, RELEASED = "queued", "placed", "released"


@dataclass
class _Way:
    """When a pod came how far, in seconds of the clock."""

    noted: float
    cycle: float = 0.0
    written: float = 0.0


class WaitParts:
    """`clock` is monotonic, in seconds.

    >>> at = 1.0
    >>> parts = WaitParts(lambda: at)
    >>> parts.note("a")
    >>> at = 2.0
    >>> began = parts.clock()
    >>> at = 4.0
    >>> parts.note_written(["a"], began)
    >>> at = 7.0
    >>> parts.note_released("a")
    >>> parts.seconds
    {'queued': 1.0, 'placed': 2.0, 'released': 3.0}
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._under_way: dict[str, _Way] = {}
        self.seconds = {QUEUED: 0.0, PLACED: 0.0, RELEASED: 0.0}
        """Sums over pods: until the cycle that placed them began, from there until their ledger was written, and from
        there until the answer or the watch told of the release."""

    def note(self, uid: str) -> None:
        """The pod waits; only the first time counts."""
        self._under_way.setdefault(uid, _Way(self.clock()))

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._under_way.pop(uid, None)

    def note_written(self, uids: Iterable[str], began: float) -> None:
        """Their ledgers are written, by the cycle that began then."""
        now = self.clock()
        for uid in uids:
            if (way := self._under_way.get(uid)) is not None:
                way.cycle = began
                way.written = now

    def note_released(self, uid: str) -> None:
        """The pod was released; by another leader, it does not count."""
        way = self._under_way.pop(uid, None)
        if way is None or not way.written:
            return
        self.seconds[QUEUED] += way.cycle - way.noted
        self.seconds[PLACED] += way.written - way.cycle
        self.seconds[RELEASED] += self.clock() - way.written
