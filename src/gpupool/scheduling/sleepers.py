"""Which waiting classes a plan need not look at: they have no room, and nobody can make any for them.

In a full pool with ten thousand classes a change concerns a few of them. A class sleeps where its shape (of a gang,
that of a role that it needs) has room on no node when the plan starts: seats only vanish while a plan is made. Its turn
would change nothing but for one thing: the first that find no room are promised a start. So of the sleepers of one
tenant and priority that wait for the same cards, the first is in the queue, and the next one after it had its turn
without a promise. This holds where nothing is kept, reserved or owed, and nobody can be evicted.

Where somebody has a limit, a claim also has no room where a quota is exhausted: while a plan is made nothing is given
back. There a class sleeps only if its turn comes after those inside what their tenants are guaranteed (`outranked`): it
stays behind them, in the same lane, and keeps nobody waiting (`floors`). See docs/decisions/0030-the-whole-cycle.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.quota import Amount
from gpupool.scheduling.free import Free
from gpupool.scheduling.quota_columns import Asked, QuotaColumns, columns_of
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.rooms import Rooms
from gpupool.scheduling.roster import Roster
from gpupool.scheduling.snapshot import Bools, ClassKey, Ints, Snapshot, Waiting

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


class Limits(NamedTuple):
    """Of a plan where somebody has one; `least` tells what a class takes at least."""

    quotas: Quotas
    least: Callable[[Waiting], Amount]


class Sleepers:
    """What lives with the board: shapes by number, and what each class waits for.

    A class has a slot for as long as it is the same object; what is known of it stands in columns, by slot.
    """

    def __init__(self, free: Free, roster: Roster) -> None:
        self._free, self._roster = free, roster
        self._begin()

    def of(self, snapshot: Snapshot, promised: Collection[str] = (), limits: Limits | None = None) -> Asleep:
        """Those of the snapshot's classes that sleep while nothing comes free; `limits`: where anybody has one.

        A class that was promised a start by the last plan does not, nor does that of a claim that is `promised` one.
        """
        self.follow(snapshot.waiting)
        found = self._rooms.found()
        asleep = np.zeros(len(self._classes), dtype=np.bool_)
        asleep[self._owners.now[found[self._shapes.now] == 0]] = True
        if limits is not None:
            asked, columns = self._asked(limits), QuotaColumns(limits.quotas, self._tenants)
            asleep |= columns.exhausted(asked) & (self._single.now == 1)
            asleep &= columns.outranked(asked)
        for name in self._roster.running_gangs:
            if (slot := self._gangs.get(name)) is not None:
                asleep[slot] = False  # what it needs depends on who of it runs
        asleep[self._promised(snapshot, promised)] = False
        at = np.full(len(self._classes), -1, dtype=np.int64)
        at[self._slots] = np.arange(len(self._slots))
        lane_of = self._lane_of.now
        order = self._order[asleep[self._order]]
        alike = self._kinds if limits is None else range(len(self._kinds))
        return Asleep(snapshot.waiting, asleep[self._slots], at[order], lane_of[order], alike)

    def _promised(self, snapshot: Snapshot, claims: Collection[str]) -> list[int]:
        """Slots of classes with a promise."""
        found = [slot for key in snapshot.promised if (slot := self._keys.get(key)) is not None]
        moved = frozenset(claims).difference(*(_claims(self._classes[slot]) for slot in found))
        if moved:  # to another class than they were in
            found += [slot for slot in self._slots.tolist() if not moved.isdisjoint(_claims(self._classes[slot]))]
        return found

    def kind(self, waiting: Waiting) -> Hashable:
        """What cards the class waits for; the same for two that can be due for the same starts."""
        slot = self._slot_of.get(id(waiting))
        return self._kind(waiting) if slot is None else self._kinds[self._lane_of.now[slot]][1]

    def find_gang(self, name: str) -> Waiting:
        """The gang's entry in the snapshot that was looked at last, where it has one."""
        return self._classes[self._gangs[name]]

    def _begin(self) -> None:
        self._rooms = Rooms(self._free)
        self._lanes: dict[Lane, int] = {}
        self._kinds: list[tuple[int, Hashable]] = []
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
        self._keys: dict[ClassKey, int] = {}
        self._lane_of = Column()
        self._shapes, self._owners = Column(), Column()
        """A needed shape's number, and the slot of the class that needs it."""
        self._tenants: dict[str, int] = {}
        self._tenant_of, self._firm, self._single = Column(), Column(), Column()
        self._milli, self._size = Column(), Column()
        """What each takes at least, of as many classes as were asked about."""

    def follow(self, waiting: tuple[Waiting, ...]) -> None:
        """Be as these wait now."""
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
        kind = self._kind(one)
        lane = self._lanes.setdefault((one.tenant, one.priority, kind), len(self._lanes))
        if lane == len(self._kinds):
            self._kinds.append((one.priority, kind))
        self._lane_of.extend([lane])
        self._tenant_of.extend([self._tenants.setdefault(one.tenant, len(self._tenants))])
        self._firm.extend([not one.preemptible])
        self._single.extend([one.gang is None and len(numbers) > 0])
        self._keys[one.key] = slot
        if one.gang is not None:
            self._gangs[one.gang.id] = slot
        return slot

    def _kind(self, one: Waiting) -> Hashable:
        return frozenset(self._rooms.kind(shape) for shape in _needed(one))

    def _asked(self, limits: Limits) -> Asked:
        known = len(self._milli.now)
        milli, size = columns_of(limits.least(one) for one in self._classes[known:])
        self._milli.extend(milli)
        self._size.extend(size)
        return Asked(self._tenant_of.now, self._firm.now == 1, self._milli.now, self._size.now)

    def _leave(self, slot: int) -> int:
        """Nobody waits in the slot any more; the columns keep it until they are begun anew."""
        one = self._classes[slot]
        del self._slot_of[id(one)]
        if self._keys.get(one.key) == slot:
            del self._keys[one.key]
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

    def extend(self, numbers: Sequence[int] | Ints) -> None:
        used = self._used + len(numbers)
        if used > len(self._all):
            self._all = np.append(self._all, np.zeros(used, dtype=np.int64))
        self._all[self._used : used] = numbers
        self._used = used


class Asleep:
    """The sleepers of one plan."""

    def __init__(
        self, waiting: tuple[Waiting, ...], asleep: Bools, order: Ints, lane_of: Ints, alike: Sequence[Hashable]
    ) -> None:
        """`order`: the numbers of the sleepers by lane, the oldest of each first; `lane_of` each of these.

        Of two lanes that are `alike`, by number, nobody is due in the one where nobody is in the other.
        """
        self._waiting, self._asleep, self._alike = waiting, asleep, alike
        self._order, self._lane_of = order, lane_of
        self._place: dict[int, int] = {}
        """In the order, of those that had their turn in the queue or have it."""
        self._closed: set[Hashable] = set()

    def __contains__(self, i: int) -> bool:
        """Whether the class of that number has no room."""
        return bool(self._asleep[i])

    def awake(self) -> list[int]:
        """Numbers of the others."""
        return np.flatnonzero(~self._asleep).tolist()

    def in_queue(self) -> Iterator[int]:
        """Numbers of the classes that are awake, and of the first sleeper of each lane."""
        yield from self.awake()
        lanes = self._lane_of
        first = np.ones(len(lanes), dtype=np.bool_)
        first[1:] = lanes[1:] != lanes[:-1]
        for place in np.flatnonzero(first).tolist():
            yield self._called(place)

    def is_closed(self, i: int) -> bool:
        """Whether nothing comes of the turn of that class any more."""
        place = self._place.get(i)
        return place is not None and self._alike[int(self._lane_of[place])] in self._closed

    def after(self, i: int, is_due: Callable[[Waiting], bool]) -> int | None:
        """Who of its lane has the next turn, after that class found no room; `is_due`: it may be promised a start."""
        place = self._place.get(i)
        if place is None:
            return None
        lane = int(self._lane_of[place])
        if not is_due(self._waiting[i]):
            self._closed.add(self._alike[lane])
            return None
        behind = place + 1
        return self._called(behind) if behind < len(self._order) and self._lane_of[behind] == lane else None

    def _called(self, place: int) -> int:
        i = int(self._order[place])
        self._place[i] = place
        return i


def _claims(one: Waiting) -> Sequence[str]:
    return one.heads if one.gang is None else (one.gang.id,)


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
