"""Which waiting classes a plan need not look at: they have no room, and nobody can make any for them.

In a full pool with ten thousand classes a change concerns a few of them. A class sleeps where its shape (of a gang,
that of a role that it needs) has room on no node when the plan starts: seats only vanish while a plan is made. Its turn
would change nothing but for one thing: the first that find no room are promised a start. So of the sleepers of one
tenant and priority that wait for the same cards, the first is in the queue, and the next one after it had its turn
without a promise. This holds where nobody has a limit, nothing is kept, reserved or owed, and nobody can be evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.free import Free
from gpupool.scheduling.rooms import Rooms
from gpupool.scheduling.roster import Roster
from gpupool.scheduling.snapshot import Bools, Ints, Snapshot, Waiting

FEWEST = 128
"""With fewer classes it is not worth the counting."""

_SPARE = 4096
"""Shapes that nobody waits with any more are forgotten when there are more of them."""

_NONE: Ints = np.zeros(0, dtype=np.int64)

Lane = tuple[str, int, Hashable]
"""Tenant, priority, and the kind of cards that is waited for."""


class _Class(NamedTuple):
    """What is known of a class for as long as it is the same object."""

    waiting: Waiting
    rooms: tuple[int, ...]
    """Numbers of the shapes that it needs; none: it does not sleep."""
    lane: int
    age: int


class Sleepers:
    """What lives with the board: shapes by number, and what each class waits for."""

    def __init__(self, free: Free, roster: Roster) -> None:
        self._free, self._roster = free, roster
        self._followed: tuple[Waiting, ...] = ()
        self._gangs: dict[str, int] = {}
        self._begin()

    def of(self, snapshot: Snapshot, promised: Collection[str] = ()) -> Asleep:
        """Those of the snapshot's classes that sleep while nothing comes free; who is `promised` a start does not."""
        self._follow(snapshot.waiting)
        found = self._rooms.found()
        asleep = np.zeros(len(snapshot.waiting), dtype=np.bool_)
        asleep[self._owners[found[self._shapes] == 0]] = True
        for name in self._roster.running_gangs & self._gangs.keys():
            asleep[self._gangs[name]] = False  # what it needs depends on who of it runs
        if promised:
            names = frozenset(promised)
            asleep[[i for i, one in enumerate(snapshot.waiting) if _is_among(one, names)]] = False
        return Asleep(snapshot.waiting, asleep, self._order, self._lane_of, self._kinds)

    def _begin(self) -> None:
        self._rooms = Rooms(self._free)
        self._known: dict[int, _Class] = {}
        self._lanes: dict[Lane, int] = {}
        self._kinds: list[Hashable] = []
        """Of each lane, its priority and the kind of cards that is waited for: alike, none is due where one is not."""
        self._lane_of: Ints = _NONE
        self._order: Ints = _NONE
        """Classes by lane, the oldest of each first."""
        self._shapes: Ints = _NONE
        self._owners: Ints = _NONE
        """A needed shape's number, and the class that needs it."""

    def _follow(self, waiting: tuple[Waiting, ...]) -> None:
        if waiting is self._followed:
            return
        if max(len(self._rooms), len(self._lanes)) > 2 * len(waiting) + _SPARE:
            self._begin()
        known, each = self._known, list[_Class]()
        for one in waiting:
            found = known.get(id(one))
            each.append(found if found is not None and found.waiting is one else self._class(one))
        self._known = {id(one.waiting): one for one in each}
        self._followed = waiting
        self._gangs = {one.gang.id: i for i, one in enumerate(waiting) if one.gang is not None}
        self._shapes = np.array([number for one in each for number in one.rooms], dtype=np.int64)
        self._owners = np.repeat(np.arange(len(each)), [len(one.rooms) for one in each])
        self._lane_of = np.array([one.lane for one in each], dtype=np.int64)
        self._order = self._by_age(each)

    def _class(self, one: Waiting) -> _Class:
        shapes = _needed(one)
        numbers = [self._rooms.number(shape) for shape in shapes]
        rooms = tuple(number for number in numbers if number is not None)
        kind = frozenset(self._rooms.kind(shape) for shape in shapes)
        key = one.tenant, one.priority, kind
        lane = self._lanes.setdefault(key, len(self._lanes))
        if lane == len(self._kinds):
            self._kinds.append((one.priority, kind))
        age = one.heads_ns[0] if one.heads_ns else one.oldest_ns
        return _Class(one, rooms if len(rooms) == len(numbers) else (), lane, age)

    def _by_age(self, each: list[_Class]) -> Ints:
        ages = np.array([one.age for one in each], dtype=np.int64)
        order = np.lexsort((ages, self._lane_of))
        lanes, ages = self._lane_of[order], ages[order]
        if not ((lanes[1:] == lanes[:-1]) & (ages[1:] == ages[:-1])).any():
            return order
        heads = [one.waiting.heads[:1] for one in each]
        return np.array(sorted(order.tolist(), key=lambda i: (each[i].lane, each[i].age, heads[i])), dtype=np.int64)


class Asleep:
    """The sleepers of one plan."""

    def __init__(
        self, waiting: tuple[Waiting, ...], asleep: Bools, order: Ints, lane_of: Ints, kinds: list[Hashable]
    ) -> None:
        self._waiting, self._asleep, self._kinds = waiting, asleep, kinds
        self._order = order[asleep[order]]
        self._lane_of = lane_of[self._order]
        """Of each in the order."""
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
