"""Entries of the queue that may not start yet: for the end of other jobs, or until a time.

In memory, for `ledger_cache`, which holds the lock. Entries here are in no snapshot: the scheduler
does no work for them and promises them no start.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpupool.allocations.arrays.references import parse_reference
from gpupool.base.units import NANOS_PER_SECOND, format_duration

if TYPE_CHECKING:
    from gpupool.allocations.arrays.rest import ArrayRest
    from gpupool.allocations.cache.pending_jobs import QueueEntry


@dataclass(frozen=True)
class StartWait:
    """Why an entry may not start yet."""

    sentence: str
    #: Until which instant; 0: until it is told that the wait is over.
    until_ns: int = 0

    def describe(self, now_ns: int) -> str:
        """Describe the wait, with the time that is left."""
        if not self.until_ns:
            return self.sentence
        left = max(0, self.until_ns - now_ns)
        return f"{self.sentence} in {format_duration(left / NANOS_PER_SECOND)}"


class StartWaits:
    """The entries that may not start yet. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[str, QueueEntry] = {}
        self._entries_of: Counter[tuple[str, int] | str] = Counter()
        #: Ends of waits, the first one first; some are of entries that are gone.
        self._due: list[tuple[int, str]] = []

    def keep_entry(self, entry: QueueEntry) -> bool:
        """Keep an entry that has a wait; return whether it has."""
        self.remove_entry(entry.job)
        if entry.wait is None:
            return False
        self._entries_of.update(_list_owners(entry))
        self._entries[entry.job] = entry
        if entry.wait.until_ns:
            heapq.heappush(self._due, (entry.wait.until_ns, entry.job))
        return True

    def remove_entry(self, job: str) -> bool:
        """Remove an entry, or a member of the rest of an array, that waits no more. Idempotent.

        Returns:
            Whether it was here.
        """
        reference = parse_reference(job)
        if reference is not None:
            entry = self._entries.get(reference.array)
            if entry is None or entry.rest is None or not entry.rest.take_index(reference.index):
                return False
            return True if entry.rest.count else self.remove_entry(reference.array)
        entry = self._entries.pop(job, None)
        if entry is None:
            return False
        self._entries_of.subtract(_list_owners(entry))
        return True

    def clear_entries(self) -> None:
        """Remove all entries: the queue is read anew."""
        self._entries.clear()
        self._entries_of.clear()
        self._due.clear()

    def change_waits(self, waits: Mapping[str, StartWait | None]) -> list[QueueEntry]:
        """Take over for what entries wait now; entries that are not here are ignored.

        Returns:
            The entries that wait no more. They are removed.
        """
        over: list[QueueEntry] = []
        for job, wait in waits.items():
            entry = self._entries.get(job)
            if entry is None:
                continue
            if not self.keep_entry(replace(entry, wait=wait)):
                over.append(replace(entry, wait=None))
        return over

    def take_due(self, now_ns: int) -> list[QueueEntry]:
        """Remove the entries whose wait is over by now, and return them."""
        due = dict[str, StartWait | None]()
        while self._due and self._due[0][0] <= now_ns:
            until_ns, job = heapq.heappop(self._due)
            entry = self._entries.get(job)
            if entry is not None and entry.wait is not None and entry.wait.until_ns == until_ns:
                due[job] = None
        return self.change_waits(due)

    @property
    def next_due_ns(self) -> int | None:
        """The instant at which the next wait may be over; None: none ends by time."""
        return self._due[0][0] if self._due else None

    def find_wait(self, job: str) -> StartWait | None:
        """Find the wait of a job, or of a member of an array; None: it has none."""
        reference = parse_reference(job)
        entry = self._entries.get(job if reference is None else reference.array)
        return None if entry is None else entry.wait

    def find_rest(self, array: str) -> ArrayRest | None:
        """Find the rest of an array that may not start yet."""
        entry = self._entries.get(array)
        return None if entry is None else entry.rest

    def list_entries(self) -> list[QueueEntry]:
        """List the entries, the oldest submission first."""
        return sorted(self._entries.values(), key=lambda entry: entry.submitted_ns)

    def count_entries(self, owner: tuple[str, int] | str) -> int:
        """Count the entries of a tenant and a user, or of a tenant alone."""
        return self._entries_of[owner]


def _list_owners(entry: QueueEntry) -> tuple[tuple[str, int], str]:
    return (entry.key.tenant, entry.user_id), entry.key.tenant
