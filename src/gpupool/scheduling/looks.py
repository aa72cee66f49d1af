"""What searches for a start saw of one pool, so that those for heads alike need not look again.

Heads that wait for the same cards differ in what their quotas say of an instant, and in nothing else: how many seats
there are then, and which of them such a head would take, is the same for all. It stays known until anything is taken,
given back or held.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from gpupool.scheduling.columns import Columns, Taken, free_columns
from gpupool.scheduling.free import Free
from gpupool.scheduling.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Look:
    """Of heads alike, by instant: whether there are enough seats, and what one that may start takes (None: nothing)."""

    enough: dict[int, bool] = field(default_factory=dict)
    takes: dict[int, Taken | None] = field(default_factory=dict)


class Looks:
    """By who is alike, what was seen while the columns and the timeline were as they are."""

    def __init__(self) -> None:
        self._looks: dict[Hashable, Look] = {}
        self._columns: Columns | None = None
        self._changes = 0

    def of(self, alike: Hashable, free: Free, timeline: Timeline) -> Look:
        """What is known of such heads; nothing where anything has changed."""
        now = free_columns(free)
        if self._changes != timeline.changes or self._columns is None or not _equal(now, self._columns):
            self._looks.clear()
            self._columns, self._changes = Columns(*(column.copy() for column in now)), timeline.changes
        return self._looks.setdefault(alike, Look())


def _equal(one: Columns, other: Columns) -> bool:
    return all(np.array_equal(mine, its) for mine, its in zip(one, other, strict=True))
