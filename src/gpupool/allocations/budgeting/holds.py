"""Owners whose budget is spent, and their entries of the queue, kept apart from what can start.

In memory, for `ledger_cache`, which holds the lock. Entries here are in no snapshot, so the
scheduler does no work for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpupool.allocations.arrays.references import parse_reference
from gpupool.allocations.arrays.rest import ArrayRest
from gpupool.allocations.cache.pending_jobs import QueueEntry

#: What helps a job that waits for money.
RAISE_HINT: Final = "an admin can raise it: gpupool budget list, gpupool budget set"


@dataclass(frozen=True)
class BudgetHold:
    """A spent budget: of a tenant, or of one project and user of it."""

    budget: str
    tenant: str
    project: str | None
    user_id: int | None
    sentence: str

    def covers(self, entry: QueueEntry) -> bool:
        """Whether an entry of the queue is paid from this budget."""
        return (
            self.tenant == entry.key.tenant
            and self.project in (None, entry.project)
            and self.user_id in (None, entry.user_id)
        )

    @property
    def owner(self) -> tuple[str, str | None, int | None]:
        return self.tenant, self.project, self.user_id


class BudgetHolds:
    """The holds and the entries that wait for them. Not thread-safe."""

    def __init__(self) -> None:
        self._holds: dict[str, BudgetHold] = {}
        self._entries: dict[str, QueueEntry] = {}
        self._entries_of: Counter[tuple[str, int] | str] = Counter()

    def set_holds(self, holds: Iterable[BudgetHold]) -> bool:
        """Replace the holds; return whether other owners are held than before."""
        before = {hold.owner for hold in self._holds.values()}
        self._holds = {hold.budget: hold for hold in holds}
        return before != {hold.owner for hold in self._holds.values()}

    def add_holds(self, holds: Iterable[BudgetHold]) -> None:
        """Add holds that an admission has found."""
        self._holds |= {hold.budget: hold for hold in holds}

    def find_hold(self, entry: QueueEntry) -> BudgetHold | None:
        """Find a hold that covers an entry; None: it may start."""
        for hold in self._holds.values():
            if hold.covers(entry):
                return hold
        return None

    def keep_entry(self, entry: QueueEntry) -> bool:
        """Keep an entry that is held; return whether it is."""
        if self.find_hold(entry) is None:
            return False
        if entry.job not in self._entries:
            self._entries_of.update(_list_owners(entry))
        self._entries[entry.job] = entry
        return True

    def remove_entry(self, job: str) -> None:
        """Remove an entry, or a member of the rest of an array, that waits no more. Idempotent."""
        reference = parse_reference(job)
        if reference is not None:
            rest = self.find_rest(reference.array)
            if rest is None or not rest.take_index(reference.index) or rest.count:
                return
            job = reference.array
        entry = self._entries.pop(job, None)
        if entry is not None:
            self._entries_of.subtract(_list_owners(entry))

    def clear_entries(self) -> None:
        """Remove all entries: the queue is read anew."""
        self._entries.clear()
        self._entries_of.clear()

    def find_sentence(self, job: str) -> str | None:
        """Find why a job waits for money; None: it does not."""
        reference = parse_reference(job)
        entry = self._entries.get(job if reference is None else reference.array)
        hold = None if entry is None else self.find_hold(entry)
        return None if hold is None else hold.sentence

    def find_rest(self, array: str) -> ArrayRest | None:
        """Find the rest of an array that waits for money."""
        entry = self._entries.get(array)
        return None if entry is None else entry.rest

    def count_entries(self, owner: tuple[str, int] | str) -> int:
        """Count the entries of a tenant and a user, or of a tenant alone."""
        return self._entries_of[owner]


def _list_owners(entry: QueueEntry) -> tuple[tuple[str, int], str]:
    return (entry.key.tenant, entry.user_id), entry.key.tenant
