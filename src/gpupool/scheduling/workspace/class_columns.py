"""Columns of waiting classes, which live with the planning state: what each class waits for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.node_counts import RoomyNodeCounts
from gpupool.scheduling.quota.quota_columns import ClaimColumns, QuotaColumns, split_amounts
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.running_jobs_index import RunningJobsIndex
from gpupool.scheduling.workspace.sleeping_classes import ClassLanes, SleepingClasses

#: With fewer classes a plan may place them all, and counting costs a fifth of placing them
#: (decision 0030).
FEWEST = 64

#: So many classes come and go one by one; beyond that all are sorted again.
_FEW = 64

#: Shapes and classes that no longer wait are forgotten when there are more of them.
_SPARE = 4096

_NONE: Ints = np.zeros(0, dtype=np.int64)

#: Tenant, priority, and the kind of cards that the class waits for.
Lane = tuple[str, int, Hashable]

#: Of a class in the order of turns: its lane, its age, its first head, and its slot.
_Place = tuple[int, int, str, int]


class QuotaLimits(NamedTuple):
    """The quotas of a plan with limits; `least` computes what a class takes at least."""

    quotas: WorkingQuotas
    least: Callable[[WaitingClass], ResourceAmount]


class ClassColumns:
    """What lives with the planning state: shapes by number, and what each class waits for.

    A class has a slot for as long as it is the same object; what is known of it stands in columns,
    by slot.
    """

    def __init__(self, free: FreeCapacity, roster: RunningJobsIndex) -> None:
        self._free = free
        self._roster = roster
        self._begin()

    def make_sleeping_classes(
        self, snapshot: Snapshot, promised: Collection[str] = (), limits: QuotaLimits | None = None
    ) -> SleepingClasses:
        """Make the lanes of a snapshot's classes, with those that have room.

        A class that was promised a start by the last plan is in no lane, nor is the class of a
        claim that is `promised` one.

        Args:
            snapshot: the pool and its queue.
            promised: claims with a promised start.
            limits: the quotas, where a tenant has a limit.
        """
        self.follow(snapshot.waiting)
        settled = self._counted.now == 1
        for name in self._roster.running_gangs:
            if (slot := self._gangs.get(name)) is not None:
                # What it needs depends on which of its members run, and that is not counted here.
                settled[slot] = False
        settled[self._list_promised_slots(snapshot, promised)] = False
        if limits is not None:
            settled &= self._make_quota_columns(limits).find_outranked(
                self._make_claim_columns(limits)
            )
        at = np.full(len(self._classes), -1, dtype=np.int64)
        at[self._slots] = np.arange(len(self._slots))
        order = self._order[settled[self._order]]
        alike = self._kinds if limits is None else range(len(self._kinds))
        lanes = ClassLanes(at[order], self._lane_of.now[order], alike)
        return SleepingClasses(
            snapshot.waiting, settled[self._slots], lanes, partial(self._room, limits)
        )

    def _room(self, limits: QuotaLimits | None) -> Bools:
        """By number in the snapshot, whether each class has room now, as far as cards and quotas
        are counted.
        """
        self._rooms.count_nodes()
        room = np.ones(len(self._classes), dtype=np.bool_)
        room[
            self._owners.now[
                self._rooms.estimate_most_claims()[self._shapes.now] < self._members.now
            ]
        ] = False
        if limits is not None:
            room &= ~self._make_quota_columns(limits).find_exhausted(
                self._make_claim_columns(limits)
            ) | (self._single.now == 0)
        now: Bools = room[self._slots]
        return now

    def _make_quota_columns(self, limits: QuotaLimits) -> QuotaColumns:
        return QuotaColumns(limits.quotas, self._tenants)

    def get_card_kind(self, waiting: WaitingClass) -> Hashable:
        """Return what cards the class waits for; equal for two that can be due for the same starts."""
        slot = self._slot_of.get(id(waiting))
        return (
            self._make_card_kind(waiting)
            if slot is None
            else self._kinds[self._lane_of.now[slot]][1]
        )

    def list_promised_classes(self, snapshot: Snapshot, claims: Collection[str]) -> list[int]:
        """List the numbers of classes with one of these claims, or with a start promised by the
        last plan.
        """
        if len(snapshot.waiting) < FEWEST:
            return list(range(len(snapshot.waiting)))
        self.follow(snapshot.waiting)
        return np.flatnonzero(
            np.isin(self._slots, self._list_promised_slots(snapshot, claims))
        ).tolist()

    def _list_promised_slots(self, snapshot: Snapshot, claims: Collection[str]) -> list[int]:
        """Slots of classes with a promise."""
        found = list[int]()
        moved = set(claims)
        for key in snapshot.previous_starts:
            slot = self._keys.get(key)
            if slot is not None:
                found.append(slot)
                moved.difference_update(_list_claims(self._classes[slot]))
        # A claim may have moved to another class than that of its promise (its priority changed);
        # only then all classes are searched.
        if moved:
            for slot in self._slots.tolist():
                if not moved.isdisjoint(_list_claims(self._classes[slot])):
                    found.append(slot)
        return found

    def find_gang(self, name: str) -> WaitingClass:
        """Return the gang's entry in the snapshot that was followed last."""
        return self._classes[self._gangs[name]]

    def _begin(self) -> None:
        self._rooms = RoomyNodeCounts(self._free)
        self._lanes: dict[Lane, int] = {}
        #: Of each lane, its priority and the kind of cards: where equal, no class is due in one
        #: lane if none is in the other.
        self._kinds: list[tuple[int, Hashable]] = []
        self._begin_classes()

    def _begin_classes(self) -> None:
        self._followed: tuple[WaitingClass, ...] = ()
        #: Slots of the classes that are followed, in their order.
        self._slots: Ints = _NONE
        #: By identity of a class: no other object has it as long as the class is kept here.
        self._slot_of: dict[int, int] = {}
        self._classes: list[WaitingClass] = []
        #: Of all that are followed, in their order: by lane, the oldest of each first.
        self._places: list[_Place] = []
        #: The slots in that order.
        self._order: Ints = _NONE
        self._gangs: dict[str, int] = {}
        self._keys: dict[ClassKey, int] = {}
        self._lane_of = IntColumn()
        self._shapes = IntColumn()
        self._members = IntColumn()
        #: A needed shape's number, how many claims of it have to find room, and the slot of the
        #: class that needs it.
        self._owners = IntColumn()
        self._tenants: dict[str, int] = {}
        self._tenant_of = IntColumn()
        self._firm = IntColumn()
        self._counted = IntColumn()
        #: Whether rooms count all that it needs, and whether it is no gang.
        self._single = IntColumn()
        self._milli = IntColumn()
        #: What each takes at least, of as many classes as were asked about.
        self._size = IntColumn()

    def follow(self, waiting: tuple[WaitingClass, ...]) -> None:
        """Follow the classes that wait now."""
        # Hosts hand on the same tuple while nothing has come or gone.
        if waiting is self._followed:
            return
        # Slots, shapes and lanes are never reused, so that old numbers stay right; when most of
        # them are stale, all begin anew. Half of the columns at most are waste.
        if max(len(self._rooms), len(self._lanes)) > 2 * len(waiting) + _SPARE:
            self._begin()
        elif len(self._classes) > 2 * len(waiting) + _SPARE:
            self._begin_classes()
        slots = list(map(self._slot_of.get, map(id, waiting)))
        come = [at for at, slot in enumerate(slots) if slot is None]
        for at in come:
            slots[at] = self._add_class(waiting[at])
        now = np.array(slots, dtype=np.int64)
        gone = np.zeros(len(self._classes), dtype=np.bool_)
        gone[self._slots] = True
        gone[now] = False
        left = np.flatnonzero(gone).tolist()
        for slot in left:
            self._remove_class(slot)
        self._update_order(left, now[come].tolist())
        self._slots = now
        self._followed = waiting

    def _add_class(self, one: WaitingClass) -> int:
        slot = self._slot_of[id(one)] = len(self._classes)
        self._classes.append(one)
        shapes = _list_needed(one)
        numbers = list[int]()
        for shape, _ in shapes:
            number = self._rooms.register_shape(shape)
            if number is not None:
                numbers.append(number)
        # A partition is not counted (`node_counts`), so a class that needs one stays awake.
        if len(numbers) == len(shapes):
            self._shapes.extend(numbers)
            self._members.extend([count for _, count in shapes])
            self._owners.extend([slot] * len(numbers))
        kind = self._make_card_kind(one)
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

    def _make_card_kind(self, one: WaitingClass) -> Hashable:
        return frozenset(self._rooms.get_shape_group(shape) for shape, _ in _list_needed(one))

    def _make_claim_columns(self, limits: QuotaLimits) -> ClaimColumns:
        # The least amount of a class never changes as long as it is the same object: it depends on
        # the shape and on the pool's cards, and another pool has other columns.
        known = len(self._milli.now)
        milli, size = split_amounts(limits.least(one) for one in self._classes[known:])
        self._milli.extend(milli)
        self._size.extend(size)
        return ClaimColumns(
            self._tenant_of.now, self._firm.now == 1, self._milli.now, self._size.now
        )

    def _remove_class(self, slot: int) -> None:
        """Remove the class of the slot; the columns keep the slot until they are begun anew."""
        one = self._classes[slot]
        del self._slot_of[id(one)]
        # The class of that key may be a new object already, in a slot of its own.
        if self._keys.get(one.key) == slot:
            del self._keys[one.key]
        if one.gang is not None and self._gangs.get(one.gang.id) == slot:
            del self._gangs[one.gang.id]

    def _update_order(self, gone: list[int], come: list[int]) -> None:
        if len(gone) + len(come) > _FEW:
            left = set(gone)
            places = [place for place in self._places if place[3] not in left]
            places += map(self._place, come)
            self._places = sorted(places)
            self._order = np.array([place[3] for place in self._places], dtype=np.int64)
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
        age = one.submitted_ns[0] if one.submitted_ns else one.oldest_ns
        return int(self._lane_of.now[slot]), age, one.job_ids[0] if one.job_ids else "", slot


class IntColumn:
    """Numbers by slot; more are written behind those that are there."""

    def __init__(self) -> None:
        self._all: Ints = np.zeros(_SPARE, dtype=np.int64)
        self._used = 0

    @property
    def now(self) -> Ints:
        """The numbers; read only, and valid until more are added."""
        return self._all[: self._used]

    def extend(self, numbers: Sequence[int] | Ints) -> None:
        used = self._used + len(numbers)
        if used > len(self._all):
            self._all = np.append(self._all, np.zeros(used, dtype=np.int64))
        self._all[self._used : used] = numbers
        self._used = used


def _list_claims(one: WaitingClass) -> Sequence[str]:
    return one.job_ids if one.gang is None else (one.gang.id,)


def _list_needed(one: WaitingClass) -> list[tuple[Shape, int]]:
    """How many claims of each shape must find room at once; of a gang, while no member of it runs."""
    if one.gang is None or not one.job_ids:
        return [(one.shape, 1)] if one.job_ids else []
    members = iter(one.gang.members)
    heads = set(one.job_ids)
    found = list[tuple[Shape, int]]()
    for role in one.gang.root.iterate_roles():
        gone = sum(next(members) not in heads for _ in range(role.desired))
        if role.minimum > gone:
            found.append((role.shape, role.minimum - gone))
    return found
