"""Measures the stages of a pod's wait, from its first watch event to the end of its gate.

Only pods released by this leader count, each once, at its release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

QUEUED = "queued"
PLACED = "placed"
RELEASED = "released"


@dataclass
class _PodTimes:
    """When a pod came how far, in seconds of the clock."""

    noted: float
    cycle: float = 0.0
    written: float = 0.0


class WaitStages:
    """Seconds that released pods spent in each stage. `clock` is monotonic, in seconds.

    >>> at = 1.0
    >>> stages = WaitStages(lambda: at)
    >>> stages.note_queued("a")
    >>> at = 2.0
    >>> began = stages.clock()
    >>> at = 4.0
    >>> stages.note_written(["a"], began)
    >>> at = 7.0
    >>> stages.note_released("a")
    >>> stages.seconds
    {'queued': 1.0, 'placed': 2.0, 'released': 3.0}
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._under_way: dict[str, _PodTimes] = {}
        #: Sums over pods: until the cycle that placed them began, from there until their ledger
        #: was written, and from there until the answer or the watch told of the release.
        self.seconds = {QUEUED: 0.0, PLACED: 0.0, RELEASED: 0.0}

    def note_queued(self, uid: str) -> None:
        """The pod waits; only the first time counts."""
        self._under_way.setdefault(uid, _PodTimes(self.clock()))

    def forget_pod(self, uid: str) -> None:
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
        """The pod was released."""
        way = self._under_way.pop(uid, None)
        # Another leader placed a pod whose entry this one did not write: its stages are unknown.
        if way is None or not way.written:
            return
        self.seconds[QUEUED] += way.cycle - way.noted
        self.seconds[PLACED] += way.written - way.cycle
        self.seconds[RELEASED] += self.clock() - way.written
