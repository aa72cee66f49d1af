"""The queue of one plan: classes in the order of their turn, in lanes that rise together.

A lane has the classes of one tenant whose ranks differ in nothing but age. What the tenant is given moves all of its
lanes by the same amount, so one look at the first class of a lane does for those behind it: a turn costs what changed,
not the number of classes of the tenant.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from gpupool.scheduling.fairness import NOT_OWED, Rank, Standing, rank
from gpupool.scheduling.snapshot import Waiting

_Alike = tuple[int, int, bool, int]
"""The part of a rank before the standing, which the classes of a lane have in common."""

_Own = tuple[int, str]
"""The part behind it: when the class's next head was submitted, and its id."""

_Lane = tuple[str, _Alike]
"""Tenant, and what its classes have in common."""

_Place = tuple[_Own, int, int]
"""With the numbers of the class and of its head."""


def _level(_class: int) -> Standing:
    return ()


def _owed_nothing(_class: int, _head: int) -> int:
    return NOT_OWED


def _no_floor(_class: int, _head: int) -> int | None:
    return None


class Queue:
    """Classes in the order of their turn; one head is taken at a time.

    `borrowing(i)` tells for the class number i whether its next head borrows now, `stands(i)` where its tenant stands,
    `owed(i, head)` its place among those for whom others were told to leave, `floor(i, head)` the priority that
    its turn may not pass; all are asked again when the class comes up, as placing others may have changed them.
    """

    def __init__(
        self,
        waiting: Iterable[Waiting],
        borrowing: Callable[[int], bool],
        stands: Callable[[int], Standing] = _level,
        owed: Callable[[int, int], int] = _owed_nothing,
        floor: Callable[[int, int], int | None] = _no_floor,
        among: Iterable[int] | None = None,
    ) -> None:
        """`among`: numbers of the classes that are in the queue at first; all of them."""
        self._waiting = tuple(waiting)
        self._borrowing, self._stands, self._owed, self._floor = borrowing, stands, owed, floor
        self._taken: _Lane | None = None
        """The lane of which the first was taken: when the next is asked for, it stands where its tenant does then."""
        first = range(len(self._waiting)) if among is None else among
        self._begin([(i, 0) for i in first if self._waiting[i].heads])

    def take(self) -> tuple[int, int] | None:
        """(class, head) whose turn it is, or None; the class is out until it is put back."""
        if self._taken is not None:
            lane = self._lanes[self._taken]
            if lane:
                self._offer(self._taken, self._stands(lane[0][1]))
            self._taken = None
        while self._order:
            stood, at = self._order[0]
            found = self._lanes[at]
            if not found or found[0][0] != _own(stood):
                heapq.heappop(self._order)  # of a class that has left the lane
                continue
            _, i, head = found[0]
            stands = self._rank(i, head)
            if stands <= stood:
                heapq.heappop(self._order)
                heapq.heappop(found)
                self._taken = at
                return i, head
            self._move(at, i, head, stands)
        return None

    def put_back(self, i: int, head: int) -> None:
        """The class waits again, with this head next; nothing when it has no such head."""
        if head < len(self._waiting[i].heads):
            self._enter(i, head, self._rank(i, head))

    def rank_again(self) -> None:
        """The floor is another one: whoever it kept back goes before others now."""
        self._begin([(i, head) for lane in self._lanes.values() for _, i, head in lane])

    def _begin(self, classes: Iterable[tuple[int, int]]) -> None:
        self._lanes: dict[_Lane, list[_Place]] = {}
        self._order: list[tuple[Rank, _Lane]] = []
        self._taken = None
        stands: dict[_Lane, Standing] = {}
        for i, head in classes:
            stood = self._rank(i, head)
            at = self._lane_of(i, stood)
            stands[at] = stood[4]
            self._lanes.setdefault(at, []).append((_own(stood), i, head))
        for at, lane in self._lanes.items():
            heapq.heapify(lane)
            self._offer(at, stands[at])

    def _enter(self, i: int, head: int, stands: Rank) -> None:
        at, place = self._lane_of(i, stands), (_own(stands), i, head)
        lane = self._lanes.setdefault(at, [])
        heapq.heappush(lane, place)
        if lane[0] is place or at == self._taken:
            self._offer(at, stands[4])

    def _move(self, at: _Lane, i: int, head: int, stands: Rank) -> None:
        """The first class of the lane stands higher now: with the lane, or in another one."""
        if self._lane_of(i, stands) == at:
            heapq.heapreplace(self._order, (stands, at))
            return
        heapq.heappop(self._order)
        heapq.heappop(self._lanes[at])
        self._offer(at, stands[4])
        self._enter(i, head, stands)

    def _offer(self, at: _Lane, stands: Standing) -> None:
        """The first class of the lane may have the next turn."""
        if at == self._taken:
            self._taken = None
        if lane := self._lanes[at]:
            heapq.heappush(self._order, ((*at[1], stands, *lane[0][0]), at))

    def _lane_of(self, i: int, stands: Rank) -> _Lane:
        return self._waiting[i].tenant, stands[:4]

    def _rank(self, i: int, head: int) -> Rank:
        return rank(
            self._waiting[i], head, self._borrowing(i), self._stands(i), self._owed(i, head), self._floor(i, head)
        )


def _own(stands: Rank) -> _Own:
    return stands[5], stands[6]
