"""Floors of priority: no claim that borrows goes before the claims that its quota is borrowed from.

Priority orders claims that have the same right to the cards. Borrowed quota is reclaimed by its
owner whatever the borrower's priority. So a borrower that started before the owner's turn would be
evicted by the next plan, wait and start again, and the owner would wait for ever. (Kueue orders its
cycle the same way.) Where one node guarantees what both hold, priority decides, because neither is
the owner. Seats freed by evictions for a claim inside its guarantee are not borrowed before that
claim had its turn. Between two such beneficiaries of one guarantor, priority decides again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable

from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass

#: The nodes that guarantee; equal for all tenants that have the same guarantors.
Group = Hashable


class _PriorityLevels:
    """The lowest priority per group among classes that had no turn yet."""

    def __init__(self, classes: Iterable[tuple[WaitingClass, Group]]) -> None:
        self._of = {one.key: (one.priority, group) for one, group in classes}
        self._left: defaultdict[Group, Counter[int]] = defaultdict(Counter)
        for priority, group in self._of.values():
            self._left[group][priority] += 1
        # Sorted once per change: `find_lowest` is asked for each rank of a borrowing class.
        self._lowest = self._sort_groups()

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __bool__(self) -> bool:
        return bool(self._of)

    def find_lowest(self, but: Group = None) -> int | None:
        """Return the lowest priority of all groups but one; None where none is left."""
        return next((priority for priority, group in self._lowest if group != but), None)

    def remove_class(self, key: ClassKey) -> bool:
        """Remove a class that had its turn or borrows now; return whether a level has changed."""
        priority, group = self._of.pop(key, (0, None))
        if group is None:
            return False
        left = self._left[group]
        left[priority] -= 1
        if left[priority]:
            return False
        del left[priority]
        before, self._lowest = self._lowest, self._sort_groups()
        # Only then may a stored rank be too high (`ClassQueue.rank_again`).
        return before != self._lowest

    def _sort_groups(self) -> list[tuple[int, Group]]:
        found = [(min(left), group) for group, left in self._left.items() if left]
        return sorted(found, key=lambda pair: pair[0])


class PriorityFloors:
    """For one plan: the priority that the turn of a borrowing claim may not pass."""

    def __init__(
        self,
        inside: Iterable[WaitingClass] = (),
        owed: Callable[[WaitingClass], bool] = lambda _one: False,
        group: Callable[[str], Group] = lambda _tenant: "",
    ) -> None:
        """Take the classes that are inside their guarantee.

        Args:
            inside: the classes.
            owed: whether others were evicted for a head of the class.
            group: the guarantors of a tenant.
        """
        classes = [(one, group(one.tenant)) for one in inside]
        self._group = group
        self._inside = _PriorityLevels(classes)
        self._owed = _PriorityLevels(pair for pair in classes if owed(pair[0]))

    def __bool__(self) -> bool:
        """Whether any class is left."""
        return bool(self._inside)

    def __contains__(self, key: object) -> bool:
        return key in self._inside

    def find_floor(self, tenant: str, *, owed: bool) -> int | None:
        """Return the floor of a borrowing claim; None for no floor.

        A beneficiary (`owed`) only respects beneficiaries of other groups.
        """
        # Seats freed for a claim inside its guarantee are not borrowed, not even by its own
        # siblings.
        taken_back = self._owed.find_lowest(self._group(tenant) if owed else None)
        others = None if owed else self._inside.find_lowest(self._group(tenant))
        return min((level for level in (taken_back, others) if level is not None), default=None)

    def record_turn(self, key: ClassKey, *, stays: bool, owed: bool) -> bool:
        """Record that a head of the class had its turn.

        Args:
            key: the class.
            stays: whether its next head is inside the guarantee too.
            owed: whether its next head is a beneficiary of an eviction too.

        Returns:
            Whether a level has changed.
        """
        settled = not (stays and owed) and self._owed.remove_class(key)
        return (False if stays else self._inside.remove_class(key)) or settled
