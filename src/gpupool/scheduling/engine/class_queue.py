"""The queue of one plan: classes in the order of their turn, in lanes whose ranks rise together.

A lane has the classes of one tenant whose ranks differ only in age. What the tenant is given moves
all its lanes by the same amount, so one look at the first class of a lane is enough for those
behind it: a turn costs what changed, not the number of the tenant's classes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from gpupool.scheduling.quota.queue_order import NO_TURN, Rank, Standing, rank
from gpupool.scheduling.snapshot.claims import WaitingClass

#: The part of a rank before the standing, which the classes of a lane have in common.
_Alike = tuple[int, int, bool, int]

#: The part behind it: when the class's next head was submitted, and its id.
_Own = tuple[int, str]

#: Tenant, and what its classes have in common.
_Lane = tuple[str, _Alike]

#: With the numbers of the class and of its head.
_Place = tuple[_Own, int, int]


def _stand_level(_class: int) -> Standing:
    return ()


def _find_no_place(_class: int, _head: int) -> int:
    return NO_TURN


def _find_no_floor(_class: int, _head: int) -> int | None:
    return None


class ClassQueue:
    """Classes in the order of their turn; one head is taken at a time.

    The functions are asked again when a class comes up, because placing others may have changed the
    answer.
    """

    def __init__(
        self,
        waiting: Iterable[WaitingClass],
        borrowing: Callable[[int], bool],
        stands: Callable[[int], Standing] = _stand_level,
        owed: Callable[[int, int], int] = _find_no_place,
        floor: Callable[[int, int], int | None] = _find_no_floor,
        among: Iterable[int] | None = None,
    ) -> None:
        """Queue the classes.

        Args:
            waiting: all classes.
            borrowing: whether the next head of a class borrows now.
            stands: the standing of its tenant.
            owed: the place of a head among beneficiaries of evictions and promised starts.
            floor: the priority that the head's turn may not pass.
            among: numbers of the classes queued at first; None: all.
        """
        self._waiting = tuple(waiting)
        self._borrowing = borrowing
        self._stands = stands
        self._owed = owed
        self._floor = floor
        #: The lane whose first class was taken; it is ranked by its tenant's standing at the next
        #: turn.
        self._taken: _Lane | None = None
        first = range(len(self._waiting)) if among is None else among
        self._begin([(i, 0) for i in first if self._waiting[i].job_ids])

    def take_next(self) -> tuple[int, int] | None:
        """Take the class and head whose turn it is, or None; the class is out until it is put back."""
        if self._taken is not None:
            lane = self._lanes[self._taken]
            if lane:
                self._offer_lane(self._taken, self._stands(lane[0][1]))
            self._taken = None
        while self._order:
            stood, at = self._order[0]
            found = self._lanes[at]
            if not found or found[0][0] != _get_own_part(stood):
                # A heap has no way to remove an entry inside it, so entries of classes that left
                # stay until they come up. A class's own part is unique (it ends in a job id), so
                # comparing it finds them.
                heapq.heappop(self._order)
                continue
            _, i, head = found[0]
            # Ranks only rise while a plan is made (`quota.queue_order`). So a stored rank is right
            # or too low: the first entry whose rank is confirmed has the lowest rank of all.
            stands = self._compute_rank(i, head)
            if stands <= stood:
                heapq.heappop(self._order)
                heapq.heappop(found)
                self._taken = at
                return i, head
            self._move_first(at, i, head, stands)
        return None

    def put_back(self, i: int, head: int) -> None:
        """Put the class back with this head next; nothing happens when it has no such head."""
        if head < len(self._waiting[i].job_ids):
            self._add_head(i, head, self._compute_rank(i, head))

    def rank_again(self) -> None:
        """Rank all classes again, because the floor has changed."""
        waiting = list[tuple[int, int]]()
        for lane in self._lanes.values():
            waiting += [(i, head) for _, i, head in lane]
        self._begin(waiting)

    def _begin(self, classes: Iterable[tuple[int, int]]) -> None:
        self._lanes: dict[_Lane, list[_Place]] = {}
        self._order: list[tuple[Rank, _Lane]] = []
        self._taken = None
        stands: dict[_Lane, Standing] = {}
        for i, head in classes:
            stood = self._compute_rank(i, head)
            at = self._find_lane(i, stood)
            # All classes of a lane have the standing of one tenant; any of them may say it.
            stands[at] = stood[4]
            self._lanes.setdefault(at, []).append((_get_own_part(stood), i, head))
        for at, lane in self._lanes.items():
            heapq.heapify(lane)
            self._offer_lane(at, stands[at])

    def _add_head(self, i: int, head: int, stands: Rank) -> None:
        at = self._find_lane(i, stands)
        place = (_get_own_part(stands), i, head)
        lane = self._lanes.setdefault(at, [])
        heapq.heappush(lane, place)
        # A class that goes back to the lane that was just taken must offer it at once: the lane has
        # no entry in the order then, and its tenant's new standing is known already.
        if lane[0] is place or at == self._taken:
            self._offer_lane(at, stands[4])

    def _move_first(self, at: _Lane, i: int, head: int, stands: Rank) -> None:
        """The first class of the lane stands higher now: with the lane, or in another one."""
        if self._find_lane(i, stands) == at:
            heapq.heapreplace(self._order, (stands, at))
            return
        heapq.heappop(self._order)
        heapq.heappop(self._lanes[at])
        self._offer_lane(at, stands[4])
        self._add_head(i, head, stands)

    def _offer_lane(self, at: _Lane, stands: Standing) -> None:
        """The first class of the lane may have the next turn."""
        if at == self._taken:
            self._taken = None
        if lane := self._lanes[at]:
            heapq.heappush(self._order, ((*at[1], stands, *lane[0][0]), at))

    def _find_lane(self, i: int, stands: Rank) -> _Lane:
        return self._waiting[i].tenant, stands[:4]

    def _compute_rank(self, i: int, head: int) -> Rank:
        return rank(
            self._waiting[i],
            head,
            self._borrowing(i),
            self._stands(i),
            self._owed(i, head),
            self._floor(i, head),
        )


def _get_own_part(stands: Rank) -> _Own:
    return stands[5], stands[6]
