"""A pool with little room, for tests of classes that sleep."""

from __future__ import annotations

from tests.support.scheduling_builders import cards

POOL = cards(
    "2x2xT4+1x2xH200", used={"node-1/0": (900, 0), "node-2/0": (400, 0), "node-3/1": (1000, 0)}
)
