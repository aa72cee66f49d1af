"""The rest of an array: members that have no row in `jobs` yet, as one queue entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import MemberReference
from gpupool.allocations.store.tables import HAS_REST, arrays, jobs


@dataclass
class ArrayRest:
    """Indices from `following` on without those in `ahead`, created earlier. Not thread-safe."""

    array: str
    size: int
    following: int
    ahead: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        """The number of members in the rest."""
        return self.size - self.following - len(self.ahead)

    def take_index(self, index: int) -> bool:
        """Remove a member from the rest; False if it is not in it."""
        if not self.following <= index < self.size or index in self.ahead:
            return False
        self.ahead.add(index)
        # Members are mostly taken in order: the set then stays empty.
        while self.following in self.ahead:
            self.ahead.remove(self.following)
            self.following += 1
        return True

    def has_index(self, index: int) -> bool:
        """Return whether the rest has the member."""
        return self.following <= index < self.size and index not in self.ahead

    def list_members(self) -> Iterator[str]:
        """List the references of the members in order."""
        for index in range(self.following, self.size):
            if index not in self.ahead:
                yield str(MemberReference(self.array, index))

    def count_before(self, index: int) -> int:
        """Count the members before an index."""
        return index - self.following - sum(one < index for one in self.ahead)


_AHEAD = (
    sa.select(jobs.c.array_id, jobs.c.array_index)
    .join(arrays, arrays.c.id == jobs.c.array_id)
    .where(HAS_REST, jobs.c.array_index >= arrays.c.next_index)
)


def read_rests(connection: sa.Connection, rows: Iterable[Any]) -> dict[int, ArrayRest]:
    """Read the rest of each array, by its row id.

    Args:
        connection: A read transaction.
        rows: Rows with array_id, array, size and next_index.
    """
    ahead: dict[int, set[int]] = defaultdict(set)
    for row in connection.execute(_AHEAD):
        ahead[row.array_id].add(row.array_index)
    rests = dict[int, ArrayRest]()
    for row in rows:
        rests[row.array_id] = ArrayRest(row.array, row.size, row.next_index, ahead[row.array_id])
    return rests
