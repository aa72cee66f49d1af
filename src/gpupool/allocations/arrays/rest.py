"""The rest of an array: its members that are no jobs yet, as one entry of the queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import Reference
from gpupool.allocations.tables import HAS_REST, arrays, jobs


@dataclass
class Rest:
    """Indices from `following` on, without those of `ahead`, which were made out of their turn. Not thread-safe."""

    array: str
    size: int
    following: int
    ahead: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        return self.size - self.following - len(self.ahead)

    def take(self, index: int) -> bool:
        """The member has a row now; False where it had one before."""
        if not self.following <= index < self.size or index in self.ahead:
            return False
        self.ahead.add(index)
        while self.following in self.ahead:
            self.ahead.remove(self.following)
            self.following += 1
        return True

    def has(self, index: int) -> bool:
        return self.following <= index < self.size and index not in self.ahead

    def members(self) -> Iterator[str]:
        """In the order of their turns."""
        for index in range(self.following, self.size):
            if index not in self.ahead:
                yield str(Reference(self.array, index))

    def before(self, index: int) -> int:
        """How many of them come before that member."""
        return index - self.following - sum(one < index for one in self.ahead)


_AHEAD = (
    sa.select(jobs.c.array_id, jobs.c.array_index)
    .join(arrays, arrays.c.id == jobs.c.array_id)
    .where(HAS_REST, jobs.c.array_index >= arrays.c.next_index)
)


def rests_of(connection: sa.Connection, rows: Iterable[Any]) -> dict[int, Rest]:
    """By the number of the array's row, what is left of each. Rows with array_id, array, size and next_index."""
    ahead: dict[int, set[int]] = defaultdict(set)
    for row in connection.execute(_AHEAD):
        ahead[row.array_id].add(row.array_index)
    return {row.array_id: Rest(row.array, row.size, row.next_index, ahead[row.array_id]) for row in rows}
