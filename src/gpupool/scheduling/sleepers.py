"""Which waiting classes a plan need not look at: they have no room, and nobody can make any for them.

In a full pool with ten thousand classes a change concerns a few of them. A class sleeps where its shape (of a gang,
that of a role that it needs) has room on no node when the plan starts: seats only vanish while a plan is made. Its turn
would change nothing but for one thing: the first that find no room are promised a start. So of the sleepers of one
tenant and priority that wait for the same cards, the first is in the queue, and the next one after it had its turn
without a promise. This holds where nobody has a limit, nothing is kept, reserved or owed, and nobody can be evicted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.free import Free
from gpupool.scheduling.rooms import Rooms
from gpupool.scheduling.roster import Roster
from gpupool.scheduling.snapshot import Bools, Ints, Snapshot, Waiting

FEWEST = 128
"""With fewer classes it is not worth the counting."""

_FEW = 64
"""So many classes come and go one by one; beyond that all are put in order again."""

_SPARE = 4096
"""Shapes, and classes, that nobody waits with any more are forgotten when there are more of them."""

_NONE: Ints = np.zeros(0, dtype=np.int64)

Lane = tuple[str, int, Hashable]
"""Tenant, priority, and the kind of cards that is waited for."""

_Place = tuple[int, int, str, int]
"""Of a class in the order of turns: its lane, how old it is, its first head, and its slot."""


class Sleepers:
    """What lives with the board: shapes by number, and what each class waits for.

    A class has a slot for as long as it is the same object; what is known of it stands in columns, by slot.
    """

    def __init__(self, free: Free, roster: Roster) -> None:
        self._free, self._roster = free, roster
        self._begin()

    def of(self, snapshot: Snapshot, promised: Collection[str] = ()) -> Asleep:
        """Those of the snapshot's classes that sleep while nothing comes free; who is `promised` a start does not."""
        self._follow(snapshot.waiting)
        found = self._rooms.found()
        asleep = np.zeros(len(self._classes), dtype=np.bool_)
        asleep[self._owners.now[found[self._shapes.now] == 0]] = True
        for name in self._roster.running_gangs:
            if (slot := self._gangs.get(name)) is not None:
                asleep[slot] = False  # what it needs depends on who of it runs
        if promised:
            names = frozenset(promised)
            asleep[[slot for slot in self._slots.tolist() if _is_among(self._classes[slot], names)]] = False
        at = np.full(len(self._classes), -1, dtype=np.int64)
        at[self._slots] = np.arange(len(self._slots))
        lane_of = self._lane_of.now
        order = self._order[asleep[self._order]]
        return Asleep(snapshot.waiting, asleep[self._slots], at[order], lane_of[order], self._kinds)

    def find_gang(self, name: str) -> Waiting:
        """The gang's entry in the snapshot that was looked at last, where it has one."""
        return self._classes[self._gangs[name]]

    def _begin(self) -> None:
        self._rooms = Rooms(self._free)
        self._lanes: dict[Lane, int] = {}
        self._kinds: list[Hashable] = []
        """Of each lane, its priority and the kind of cards that is waited for: alike, none is due where one is not."""
        self._begin_classes()

    def _begin_classes(self) -> None:
        self._followed: tuple[Waiting, ...] = ()
        self._slots: Ints = _NONE
        """Of the classes that are followed, in their order."""
        self._slot_of: dict[int, int] = {}
        """By identity of a class: it is not another one's as long as the class is known here."""
        self._classes: list[Waiting] = []
        self._places: list[_Place] = []
        """Of all that are followed, in their order: by lane, the oldest of each first."""
        self._order: Ints = _NONE
        """The slots in that order."""
        self._gangs: dict[str, int] = {}
        self._lane_of = Column()
        self._shapes, self._owners = Column(), Column()
        """A needed shape's number, and the slot of the class that needs it."""

    def _follow(self, waiting: tuple[Waiting, ...]) -> None:
        if waiting is self._followed:
            return
        if max(len(self._rooms), len(self._lanes)) > 2 * len(waiting) + _SPARE:
            self._begin()
        elif len(self._classes) > 2 * len(waiting) + _SPARE:
            self._begin_classes()
        slots = list(map(self._slot_of.get, map(id, waiting)))
        come = [at for at, slot in enumerate(slots) if slot is None]
        for at in come:
            slots[at] = self._enter(waiting[at])
        now = np.array(slots, dtype=np.int64)
        gone = np.zeros(len(self._classes), dtype=np.bool_)
        gone[self._slots] = True
        gone[now] = False
        self._put_in_order([self._leave(slot) for slot in np.flatnonzero(gone).tolist()], now[come].tolist())
        self._slots, self._followed = now, waiting

    def _enter(self, one: Waiting) -> int:
        slot = self._slot_of[id(one)] = len(self._classes)
        self._classes.append(one)
        shapes = _needed(one)
        numbers = [number for shape in shapes if (number := self._rooms.number(shape)) is not None]
        if len(numbers) == len(shapes):  # else it does not sleep
            self._shapes.extend(numbers)
            self._owners.extend([slot] * len(numbers))
        kind = frozenset(self._rooms.kind(shape) for shape in shapes)
        lane = self._lanes.setdefault((one.tenant, one.priority, kind), len(self._lanes))
        if lane == len(self._kinds):
            self._kinds.append((one.priority, kind))
        self._lane_of.extend([lane])
        if one.gang is not None:
            self._gangs[one.gang.id] = slot
        return slot

    def _leave(self, slot: int) -> int:
        """Nobody waits in the slot any more; the columns keep it until they are begun anew."""
        one = self._classes[slot]
        del self._slot_of[id(one)]
        if one.gang is not None and self._gangs.get(one.gang.id) == slot:
            del self._gangs[one.gang.id]
        return slot

    def _put_in_order(self, gone: list[int], come: list[int]) -> None:
        if len(gone) + len(come) > _FEW:
            left = set(gone)
            self._places = sorted([*(one for one in self._places if one[3] not in left), *map(self._place, come)])
            self._order = np.array([slot for *_, slot in self._places], dtype=np.int64)
            return
        for place in map(self._place, gone):
            at = bisect_left(self._places, place)
            del self._places[at]
            self._order = np.delete(self._order, at)
        for place in map(self._place, come):
            at = bisect_left(self._places, place)
            self._places.insert(at, place)
            self._order = np.insert(self._order, at, place[3])

    def _place(self, slot: int) -> _Place:
        one = self._classes[slot]
        age = one.heads_ns[0] if one.heads_ns else one.oldest_ns
        return int(self._lane_of.now[slot]), age, one.heads[0] if one.heads else "", slot


class Column:
    """Numbers by slot; one more is written behind those that are there."""

    def __init__(self) -> None:
        self._all: Ints = np.zeros(_SPARE, dtype=np.int64)
        self._used = 0

    @property
    def now(self) -> Ints:
        """To be read only, until more are added."""
        return self._all[: self._used]

    def extend(self, numbers: Sequence[int]) -> None:
        used = self._used + len(numbers)
        if used > len(self._all):
            self._all = np.append(self._all, np.zeros(used, dtype=np.int64))
        self._all[self._used : used] = numbers
        self._used = used


class Asleep:
    """The sleepers of one plan."""

    def __init__(
        self, waiting: tuple[Waiting, ...], asleep: Bools, order: Ints, lane_of: Ints, kinds: list[Hashable]
    ) -> None:
        """`order`: the numbers of the sleepers by lane, the oldest of each first; `lane_of` each of these."""
        self._waiting, self._asleep, self._kinds = waiting, asleep, kinds
        self._order, self._lane_of = order, lane_of
        self._place: dict[int, int] = {}
        """In the order, of those that had their turn in the queue or have it."""
        self._closed: set[Hashable] = set()
        self._had_turn: set[int] = set()

    def in_queue(self) -> Iterator[int]:
        """Numbers of the classes that are awake, and of the first sleeper of each lane."""
        yield from np.flatnonzero(~self._asleep).tolist()
        lanes = self._lane_of
        first = np.ones(len(lanes), dtype=np.bool_)
        first[1:] = lanes[1:] != lanes[:-1]
        for place in np.flatnonzero(first).tolist():
            yield self._called(place)

    def is_closed(self, i: int) -> bool:
        """Whether nothing comes of the turn of that class any more."""
        place = self._place.get(i)
        return place is not None and self._kinds[int(self._lane_of[place])] in self._closed

    def after(self, i: int, is_due: Callable[[Waiting], bool]) -> int | None:
        """Who of its lane has the next turn, after that class found no room; `is_due`: it may be promised a start."""
        place = self._place.get(i)
        if place is None:
            return None
        self._had_turn.add(i)
        lane = int(self._lane_of[place])
        if not is_due(self._waiting[i]):
            self._closed.add(self._kinds[lane])
            return None
        behind = place + 1
        return self._called(behind) if behind < len(self._order) and self._lane_of[behind] == lane else None

    def to_judge(self) -> list[int]:
        """Numbers of the classes that were looked at: who is awake, and who of the sleepers had a turn."""
        return sorted([*np.flatnonzero(~self._asleep).tolist(), *self._had_turn])

    def _called(self, place: int) -> int:
        i = int(self._order[place])
        self._place[i] = place
        return i


def _is_among(one: Waiting, claims: frozenset[str]) -> bool:
    return not claims.isdisjoint(one.heads if one.gang is None else (one.gang.id,))


def _needed(one: Waiting) -> list[Shape]:
    """The shapes for which it must find room, all of them at once; of a gang, as long as no member of it runs."""
    if one.gang is None or not one.heads:
        return [one.shape] if one.heads else []
    members, heads = iter(one.gang.members), set(one.heads)
    found = list[Shape]()
    for role in one.gang.root.roles():
        gone = sum(next(members) not in heads for _ in range(role.desired))
        if role.minimum > gone:
            found.append(role.shape)
    return found
