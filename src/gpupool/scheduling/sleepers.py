"""Which waiting classes a plan need not look at: they have no room, and nobody can make any for them.

In a full pool with ten thousand classes a change concerns a few of them. A class without room (its shape, or that of a
role that a gang needs, has room on no node) has none later in the plan: seats only vanish while it is made. Its turn
would change nothing but for one thing: the first that find no room are promised a start. So classes of one tenant and
priority that wait for the same cards are in a lane, of which one at a time is in the queue: each in turn, until one
found no room and was not due for a promise, then those that still have room when their turn is near. This holds where
nothing is kept, reserved or owed, and nobody can be evicted.

Where somebody has a limit, a claim also has no room where a quota is exhausted: while a plan is made nothing is given
back. There a class is in a lane only if its turn comes after those inside what their tenants are guaranteed
(`outranked`): it stays behind them, in the same lane, and keeps nobody waiting (`floors`).
See docs/decisions/0030-the-whole-cycle.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial
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

FEWEST = 16
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
        """The snapshot's classes by lane, with who of them has room; `limits`: where anybody has one.

        A class that was promised a start by the last plan is in no lane, nor is that of a claim that is `promised` one.
        """
        self.follow(snapshot.waiting)
        settled = self._counted.now == 1
        for name in self._roster.running_gangs:
            if (slot := self._gangs.get(name)) is not None:
                settled[slot] = False  # what it needs depends on who of it runs
        settled[self._promised(snapshot, promised)] = False
        if limits is not None:
            settled &= self._quotas(limits).outranked(self._asked(limits))
        at = np.full(len(self._classes), -1, dtype=np.int64)
        at[self._slots] = np.arange(len(self._slots))
        order = self._order[settled[self._order]]
        alike = self._kinds if limits is None else range(len(self._kinds))
        lanes = Lanes(at[order], self._lane_of.now[order], alike)
        return Asleep(snapshot.waiting, settled[self._slots], lanes, partial(self._room, limits))

    def _room(self, limits: Limits | None) -> Bools:
        """By number in the snapshot, whether each class has room now, as far as cards and quotas are counted."""
        self._rooms.found()
        room = np.ones(len(self._classes), dtype=np.bool_)
        room[self._owners.now[self._rooms.most()[self._shapes.now] < self._members.now]] = False
        if limits is not None:
            room &= ~self._quotas(limits).exhausted(self._asked(limits)) | (self._single.now == 0)
        now: Bools = room[self._slots]
        return now

    def _quotas(self, limits: Limits) -> QuotaColumns:
        return QuotaColumns(limits.quotas, self._tenants)

    def kind(self, waiting: Waiting) -> Hashable:
        """What cards the class waits for; the same for two that can be due for the same starts."""
        slot = self._slot_of.get(id(waiting))
        return self._kind(waiting) if slot is None else self._kinds[self._lane_of.now[slot]][1]

    def promised_at(self, snapshot: Snapshot, claims: Collection[str]) -> list[int]:
        """Numbers of the classes with one of these claims, or that were promised a start by the last plan."""
        if len(snapshot.waiting) < FEWEST:
            return list(range(len(snapshot.waiting)))
        self.follow(snapshot.waiting)
        return np.flatnonzero(np.isin(self._slots, self._promised(snapshot, claims))).tolist()

    def _promised(self, snapshot: Snapshot, claims: Collection[str]) -> list[int]:
        """Slots of classes with a promise."""
        found = [slot for key in snapshot.promised if (slot := self._keys.get(key)) is not None]
        moved = frozenset(claims).difference(*(_claims(self._classes[slot]) for slot in found))
        if moved:  # to another class than they were in
            found += [slot for slot in self._slots.tolist() if not moved.isdisjoint(_claims(self._classes[slot]))]
        return found

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
        self._shapes, self._members, self._owners = Column(), Column(), Column()
        """A needed shape's number, how many claims of it have to find room, and the slot of the class that needs it."""
        self._tenants: dict[str, int] = {}
        self._tenant_of, self._firm = Column(), Column()
        self._counted, self._single = Column(), Column()
        """Whether rooms count all that it needs, and whether it is no gang."""
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
        numbers = [number for shape, _ in shapes if (number := self._rooms.number(shape)) is not None]
        if len(numbers) == len(shapes):  # else it does not sleep
            self._shapes.extend(numbers)
            self._members.extend([count for _, count in shapes])
            self._owners.extend([slot] * len(numbers))
        kind = self._kind(one)
        lane = self._lanes.setdefault((one.tenant, one.priority, kind), len(self._lanes))
        if lane == len(self._kinds):
            self._kinds.append((one.priority, kind))
        self._lane_of.extend([lane])
        self._tenant_of.extend([self._tenants.setdefault(one.tenant, len(self._tenants))])
        self._firm.extend([not one.preemptible])
        self._counted.extend([0 < len(numbers) == len(shapes)])
        self._single.extend([one.gang is None])
        self._keys[one.key] = slot
        if one.gang is not None:
            self._gangs[one.gang.id] = slot
        return slot

    def _kind(self, one: Waiting) -> Hashable:
        return frozenset(self._rooms.kind(shape) for shape, _ in _needed(one))

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


class Lanes(NamedTuple):
    """Numbers of classes, lane by lane, the oldest of each first.

    Of two lanes that are `alike`, by number, nobody is due in the one where nobody is in the other.
    """

    order: Ints
    lane_of: Ints
    alike: Sequence[Hashable]


class Asleep:
    """The lanes of one plan, and who of them has room by now."""

    def __init__(self, waiting: tuple[Waiting, ...], settled: Bools, lanes: Lanes, look: Callable[[], Bools]) -> None:
        """`settled`: by number, who is in a lane; `look` tells of all who has room."""
        self._waiting, self._settled, self._lanes, self._look = waiting, settled, lanes, look
        self._room = look()
        self._show: Callable[[], None] | None = None
        self._place: dict[int, int] = {}
        """In the order, of those that are in the queue or had their turn."""
        self._closed: set[Hashable] = set()
        self._had_room: set[int] = set()
        self._passed: set[int] = set()

    def note_taken(self, show: Callable[[], None]) -> None:
        """Something was taken: others may have room no more. Before it is looked, `show` what is out of sight."""
        self._show = show

    def has_room(self, i: int) -> bool:
        """Whether the class of that number may have room; one that is in no lane may."""
        return not self._settled[i] or bool(self._room_now()[i])

    def in_queue(self) -> Iterator[int]:
        """Numbers of the classes that are in no lane, and of the first of each lane."""
        yield from self.restless()
        lanes = self._lanes.lane_of
        first = np.ones(len(lanes), dtype=np.bool_)
        first[1:] = lanes[1:] != lanes[:-1]
        for place in np.flatnonzero(first).tolist():
            yield self._called(place)

    def restless(self) -> list[int]:
        """Numbers of the classes that are in no lane."""
        return np.flatnonzero(~self._settled).tolist()

    def is_over(self, i: int) -> bool:
        """Whether nothing comes of the turn of that class any more."""
        return self._is_closed(i) and not self.has_room(i)

    def after(self, i: int, is_due: Callable[[Waiting], bool]) -> int | None:
        """Who of its lane comes to the queue once that class had its first turn; `is_due`: it may be promised a start.

        All behind it, one by one; once nobody there is due, those who have room.
        """
        if i in self._passed or i not in self._place:
            return None
        self._passed.add(i)
        if not self._is_closed(i) and not self.has_room(i) and not is_due(self._waiting[i]):
            self._closed.add(self._alike(i))
        return self._behind(self._place[i] + 1, only_room=self._is_closed(i))

    def to_judge(self) -> list[int]:
        """Numbers of the classes that were looked at for more than a promise."""
        return sorted({*self.restless(), *self._had_room})

    def note_turn(self, i: int) -> None:
        """The class has its turn, with room."""
        self._had_room.add(i)

    def _room_now(self) -> Bools:
        if self._show is not None:
            self._show()
            self._room = self._look()
            self._show = None
        return self._room

    def _alike(self, i: int) -> Hashable:
        return self._lanes.alike[int(self._lanes.lane_of[self._place[i]])]

    def _is_closed(self, i: int) -> bool:
        return i in self._place and self._alike(i) in self._closed

    def _behind(self, place: int, *, only_room: bool) -> int | None:
        lane_of = self._lanes.lane_of
        end = int(np.searchsorted(lane_of, lane_of[place - 1], "right"))
        if not only_room:
            return self._called(place) if place < end else None
        found = np.flatnonzero(self._room_now()[self._lanes.order[place:end]])
        return self._called(place + int(found[0])) if len(found) else None

    def _called(self, place: int) -> int:
        i = int(self._lanes.order[place])
        self._place[i] = place
        return i


def _claims(one: Waiting) -> Sequence[str]:
    return one.heads if one.gang is None else (one.gang.id,)


def _needed(one: Waiting) -> list[tuple[Shape, int]]:
    """For how many claims of each shape it must find room, all at once; of a gang, as long as no member of it runs."""
    if one.gang is None or not one.heads:
        return [(one.shape, 1)] if one.heads else []
    members, heads = iter(one.gang.members), set(one.heads)
    found = list[tuple[Shape, int]]()
    for role in one.gang.root.roles():
        gone = sum(next(members) not in heads for _ in range(role.desired))
        if role.minimum > gone:
            found.append((role.shape, role.minimum - gone))
    return found
