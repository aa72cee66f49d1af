"""How far apart the writes of one object are: the first at once, later ones with what gathers meanwhile.

A write of a ledger or of its status costs the API server 8 ms and 0.36 ms more for each container on the node
(`docs/measured`), however little of it changes: 80 pods that end one after the other are not 80 writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

REPORT_SECONDS = 0.5
"""Between two reports of a node's agent: so much longer at most waits whoever waits for cards that are given back."""


@dataclass
class Pace:
    """`clock` is monotonic, in seconds.

    >>> at = 100.0
    >>> pace = Pace(lambda: at, 0.5)
    >>> pace.rest()
    0.0
    >>> pace.wrote()
    >>> at = 100.2
    >>> round(pace.rest(), 3)
    0.3
    """

    clock: Callable[[], float]
    apart: float = REPORT_SECONDS
    _next: float = 0.0

    def wrote(self) -> None:
        self._next = self.clock() + self.apart

    def rest(self) -> float:
        """Seconds until the next write may be made; 0: now."""
        return max(0.0, self._next - self.clock())
