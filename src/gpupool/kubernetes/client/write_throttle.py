"""Spaces the writes of one object: the first goes at once, later ones gather changes.

A write of a ledger or its status costs the API server 8 ms, and 0.36 ms more for each container on
the node (`docs/measured`), however little of it changes. So 80 pods that end one after the other
must not cause 80 writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Seconds between two reports of a node's agent. A pod that waits for returned cards waits so much
#: longer at most.
REPORT_SECONDS = 0.5


@dataclass
class WriteThrottle:
    """`clock` is monotonic, in seconds.

    >>> at = 100.0
    >>> throttle = WriteThrottle(lambda: at, 0.5)
    >>> throttle.seconds_to_wait()
    0.0
    >>> throttle.note_write()
    >>> at = 100.2
    >>> round(throttle.seconds_to_wait(), 3)
    0.3
    """

    clock: Callable[[], float]
    apart: float = REPORT_SECONDS
    _next: float = 0.0

    def note_write(self) -> None:
        """Note that a write was made now."""
        self._next = self.clock() + self.apart

    def seconds_to_wait(self) -> float:
        """Seconds until the next write may be made; 0: now."""
        return max(0.0, self._next - self.clock())
