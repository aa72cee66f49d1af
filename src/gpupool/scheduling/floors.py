"""Claims inside what their tenants are guaranteed, until each had its turn: none that borrows from them goes before.

Priority orders claims that have the same right to the cards. What is borrowed is taken back by its owner whatever the
borrower's priority, so a borrower that started before the owner's turn would be told to leave in the next plan, wait,
and start again: the owner would wait for ever. (Kueue orders its cycle the same way.) Where one node guarantees both
what they hold, priority decides: nobody there is the owner. But seats that others were told to leave for a claim
inside its guarantee are not borrowed by anybody before that claim had its turn; of two for which others left, and to
whom one node guarantees, priority decides again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable

from gpupool.scheduling.snapshot import ClassKey, Waiting

Group = Hashable
"""Who guarantees: the same for all tenants that have it of the same nodes."""


class _Level:
    """The lowest priority per group among classes that had no turn yet."""

    def __init__(self, classes: Iterable[tuple[Waiting, Group]]) -> None:
        self._of = {one.key: (one.priority, group) for one, group in classes}
        self._left: defaultdict[Group, Counter[int]] = defaultdict(Counter)
        for priority, group in self._of.values():
            self._left[group][priority] += 1
        self._lowest = self._ordered()

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __bool__(self) -> bool:
        return bool(self._of)

    def lowest(self, but: Group = None) -> int | None:
        """Of all groups but that one; None where none is left."""
        return next((priority for priority, group in self._lowest if group != but), None)

    def drop(self, key: ClassKey) -> bool:
        """The class had its turn, or borrows now; whether a group's level is another one by that."""
        priority, group = self._of.pop(key, (0, None))
        if group is None:
            return False
        left = self._left[group]
        left[priority] -= 1
        if left[priority]:
            return False
        del left[priority]
        before, self._lowest = self._lowest, self._ordered()
        return before != self._lowest

    def _ordered(self) -> list[tuple[int, Group]]:
        found = [(min(left), group) for group, left in self._left.items() if left]
        return sorted(found, key=lambda pair: pair[0])


class Floors:
    """For one plan: the priority that the turn of a claim that borrows may not pass."""

    def __init__(
        self,
        inside: Iterable[Waiting] = (),
        owed: Callable[[Waiting], bool] = lambda _one: False,
        group: Callable[[str], Group] = lambda _tenant: "",
    ) -> None:
        """`owed` tells which classes have a head for which others were told to leave, `group` who guarantees."""
        classes = [(one, group(one.tenant)) for one in inside]
        self._group = group
        self._inside = _Level(classes)
        self._owed = _Level(pair for pair in classes if owed(pair[0]))

    def __bool__(self) -> bool:
        """Whether any is left."""
        return bool(self._inside)

    def __contains__(self, key: object) -> bool:
        return key in self._inside

    def of(self, tenant: str, *, owed: bool) -> int | None:
        """For a claim that borrows; one that is `owed` seats keeps to those that were taken back for other groups."""
        taken_back = self._owed.lowest(self._group(tenant) if owed else None)
        others = None if owed else self._inside.lowest(self._group(tenant))
        return min((level for level in (taken_back, others) if level is not None), default=None)

    def had_turn(self, key: ClassKey, *, stays: bool, owed: bool) -> bool:
        """A head of the class had its turn; `stays`: its next one is inside too, `owed`: seats were left for that too.

        Whether a level has changed.
        """
        settled = not (stays and owed) and self._owed.drop(key)
        return (False if stays else self._inside.drop(key)) or settled
