"""Cache of start searches, shared by queue heads that are alike.

Heads that wait for the same cards differ only in what their quotas allow at an instant. How many
seats there are then, and which of them such a head would take, is the same for all. The cache is
valid until capacity is taken, returned or held.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from gpupool.scheduling.filtering.capacity_columns import (
    CapacityColumns,
    SeatAmounts,
    get_free_columns,
)
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.timeline.timeline import Timeline


@dataclass(frozen=True, eq=False)
class StartSearch:
    """What is known for heads alike, by instant: whether seats suffice, and what a head would take."""

    enough: dict[int, bool] = field(default_factory=dict)
    takes: dict[int, SeatAmounts | None] = field(default_factory=dict)


class StartSearchCache:
    """Searches by what makes heads alike, valid while the columns and the timeline do not change."""

    def __init__(self) -> None:
        self._searches: dict[Hashable, StartSearch] = {}
        self._columns: CapacityColumns | None = None
        self._changes = 0

    def get_search(self, alike: Hashable, free: FreeCapacity, timeline: Timeline) -> StartSearch:
        """Return the search of such heads; an empty one where anything has changed."""
        now = get_free_columns(free)
        if (
            self._changes != timeline.changes
            or self._columns is None
            or not _is_equal(now, self._columns)
        ):
            self._searches.clear()
            self._columns = CapacityColumns(*(column.copy() for column in now))
            self._changes = timeline.changes
        return self._searches.setdefault(alike, StartSearch())


def _is_equal(one: CapacityColumns, other: CapacityColumns) -> bool:
    return all(np.array_equal(mine, its) for mine, its in zip(one, other, strict=True))
