"""Sleeping classes: waiting classes that a plan need not look at, because they cannot have room.

In a full pool with ten thousand classes a change concerns a few of them. A class has no room where
its shape, or that of a role that a gang needs, fits on no node. It then has none later in the plan,
because seats only vanish while it is made. Its turn changes only one thing: the first classes that
find no room are promised a start. So classes of one tenant and priority that wait for the same
cards form a lane, of which one at a time is in the queue: each in turn, until one found no room and
was not due for a promise, then those that still have room when their turn is near. This holds where
no capacity is held, reserved or awaited by a beneficiary, and no job can be evicted.

Where a tenant has a limit, a claim also has no room where a quota is exhausted: while a plan is
made no quota returns. There a class is in a lane only if its turn comes after claims inside their
guarantees (`is_outranked`): it stays behind them, in the same lane, and delays no claim
(`guaranteed_claims`). See docs/decisions/0030-the-whole-cycle.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.columns import Bools, Ints


class ClassLanes(NamedTuple):
    """Numbers of classes, lane by lane, the oldest of each first.

    Two lanes have the same `alike` key where no class of one is due if no class of the other is.
    """

    order: Ints
    lane_of: Ints
    alike: Sequence[Hashable]


class SleepingClasses:
    """The lanes of one plan, and which of their classes have room by now."""

    def __init__(
        self,
        waiting: tuple[WaitingClass, ...],
        settled: Bools,
        lanes: ClassLanes,
        look: Callable[[], Bools],
    ) -> None:
        """Take the lanes.

        Args:
            waiting: the classes of the snapshot.
            settled: by number, whether the class is in a lane.
            lanes: the lanes.
            look: finds by number which classes have room now.
        """
        self._waiting = waiting
        self._settled = settled
        self._lanes = lanes
        self._look = look
        self._room = look()
        self._show: Callable[[], None] | None = None
        #: Whether a class that may have had room found none since the last look.
        self._failed = False
        #: Place in the lanes' order of classes that are in the queue or had their turn.
        self._place: dict[int, int] = {}
        self._closed: set[Hashable] = set()
        self._had_room: set[int] = set()
        self._passed: set[int] = set()

    def note_taken(self, show: Callable[[], None]) -> None:
        """Record that seats were taken, so other classes may have no room any more.

        The next look comes once a turn fails: as long as all claims find room, looking after each
        of them costs as much as placing them. `show` is called before that look and shows what is
        hidden.
        """
        self._show = show

    def note_failed(self) -> None:
        """Record that a class with possible room had its turn and found none."""
        self._failed = True

    def has_room(self, i: int) -> bool:
        """Whether the class of that number may have room; a class in no lane may."""
        return not self._settled[i] or bool(self._find_room_now()[i])

    def iterate_queue(self) -> Iterator[int]:
        """Yield the numbers of classes that are in no lane, and of the first class of each lane."""
        yield from self.list_awake()
        lanes = self._lanes.lane_of
        first = np.ones(len(lanes), dtype=np.bool_)
        first[1:] = lanes[1:] != lanes[:-1]
        for place in np.flatnonzero(first).tolist():
            yield self._call_class(place)

    def list_awake(self) -> list[int]:
        """List the numbers of classes that are in no lane."""
        return np.flatnonzero(~self._settled).tolist()

    def is_over(self, i: int) -> bool:
        """Whether the turn of that class would change nothing any more."""
        return self._is_closed(i) and not self.has_room(i)

    def find_next_in_lane(self, i: int, is_due: Callable[[WaitingClass], bool]) -> int | None:
        """Find the class of its lane that comes to the queue once that class had its first turn.

        All classes behind it come one by one; once none there is due for a promise, only those with
        room.

        Args:
            i: the number of the class.
            is_due: whether a class may be promised a start.
        """
        if i in self._passed or i not in self._place:
            return None
        self._passed.add(i)
        if not self._is_closed(i) and not self.has_room(i) and not is_due(self._waiting[i]):
            # Due for a promise depends on priority and cards alone: other tenants' lanes of the
            # same kind are closed by one answer.
            self._closed.add(self._get_equivalence(i))
        return self._find_behind(self._place[i] + 1, only_room=self._is_closed(i))

    def list_looked_at(self) -> list[int]:
        """List the numbers of classes that were looked at for more than a promise."""
        return sorted({*self.list_awake(), *self._had_room})

    def note_turn(self, i: int) -> None:
        """Record that the class has its turn, with room."""
        self._had_room.add(i)

    def _find_room_now(self) -> Bools:
        # Both: seats were taken, so the last look may be too hopeful, and a turn failed, so it is.
        if self._show is not None and self._failed:
            # Rooms are counted on all free capacity. Holds are hidden per claim, by its own end.
            self._show()
            self._room = self._look()
            self._show = None
            self._failed = False
        return self._room

    def _get_equivalence(self, i: int) -> Hashable:
        return self._lanes.alike[int(self._lanes.lane_of[self._place[i]])]

    def _is_closed(self, i: int) -> bool:
        return i in self._place and self._get_equivalence(i) in self._closed

    def _find_behind(self, place: int, *, only_room: bool) -> int | None:
        lane_of = self._lanes.lane_of
        # Lanes lie one behind the other in sorted columns, so a lane's end is a binary search.
        end = int(np.searchsorted(lane_of, lane_of[place - 1], "right"))
        if not only_room:
            return self._call_class(place) if place < end else None
        found = np.flatnonzero(self._find_room_now()[self._lanes.order[place:end]])
        return self._call_class(place + int(found[0])) if len(found) else None

    def _call_class(self, place: int) -> int:
        i = int(self._lanes.order[place])
        self._place[i] = place
        return i
