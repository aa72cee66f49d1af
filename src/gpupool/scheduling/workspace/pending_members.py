"""Pending members of gangs: which wait, how many are needed at once, and how many fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.domains import (
    find_depth,
)
from gpupool.scheduling.quota.role_amounts import GangAmount
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)

#: The place of a role or group in the tree: the number of the part at each depth.
Path = tuple[int, ...]


@dataclass(frozen=True)
class PendingMembers:
    """Members of a gang without seats, by role: job ids, of which the first `least` are needed at
    once.
    """

    gang: Gang
    roles: Mapping[Path, GangRole]
    waiting: Mapping[Path, tuple[str, ...]]
    least: Mapping[Path, int]
    #: Nodes on which members of the role run.
    nodes: Mapping[Path, frozenset[int]]

    @property
    def equivalence_key(self) -> Hashable:
        """Equal for gangs that find room for their minimum, or do not, on the same pool."""
        # Members' names are left out: a thousand equal gangs are searched for once.
        return self.gang.root, tuple(self.least.items()), tuple(self.nodes.items())

    @property
    def all_counts(self) -> dict[Path, int]:
        """By role, the number of all members that wait."""
        return {path: len(jobs) for path, jobs in self.waiting.items()}

    @property
    def needed_count(self) -> int:
        """Number of members that are needed at once."""
        return sum(self.least.values())

    def remove_placed(self, found: Iterable[tuple[str, TentativePlacement]]) -> PendingMembers:
        """Return the members still without seats; the needed ones are among the placed."""
        seats = dict(found)
        left = dict[Path, tuple[str, ...]]()
        nodes = dict[Path, frozenset[int]]()
        for path, jobs in self.waiting.items():
            left[path] = tuple(job for job in jobs if job not in seats)
            nodes[path] = self.nodes[path].union(seats[job].node for job in jobs if job in seats)
        return replace(self, waiting=left, least=dict.fromkeys(self.least, 0), nodes=nodes)


def find_pending_members(
    waiting: WaitingClass, running: Sequence[RunningJob], node_of_row: Ints
) -> PendingMembers:
    """Find which members of the entry's gang wait, and how many need seats before any of them
    starts.

    A member that is not among the entry's heads has had its seat: it runs, or it has ended.
    """
    assert waiting.gang is not None
    gang = waiting.gang
    heads = set(waiting.job_ids)
    members = iter(waiting.gang.members)
    where = dict[str, int]()
    for member in running:
        if member.gang == gang.id and member.rows:
            where[member.job] = int(node_of_row[member.rows[0]])
    roles = dict(_list_roles(gang.root))
    left = dict[Path, tuple[str, ...]]()
    least = dict[Path, int]()
    nodes = dict[Path, frozenset[int]]()
    for path, role in roles.items():
        mine = [next(members) for _ in range(role.desired)]
        left[path] = tuple(job for job in mine if job in heads)
        # Members that are no heads have had a seat, also those that have ended: a gang that lost a
        # member is regrouped by its host, not refilled here.
        least[path] = max(0, role.minimum - (role.desired - len(left[path])))
        nodes[path] = frozenset(where[job] for job in mine if job in where)
    return PendingMembers(gang, roles, left, least, nodes)


class PendingGangs(dict[str, PendingMembers]):
    """Pending members by gang id; computed on first use."""

    def __init__(
        self,
        waiting: Iterable[WaitingClass],
        node_of_row: Ints,
        running: Callable[[str], Sequence[RunningJob]] | None = None,
        find: Callable[[str], WaitingClass] | None = None,
    ) -> None:
        """Take the entries of gangs.

        Args:
            waiting: the classes.
            node_of_row: the node of each card.
            running: the running members of a gang; without it none runs.
            find: the entry of a gang; without it `waiting` is searched.
        """
        super().__init__()
        self._classes = waiting
        self._node = node_of_row
        self._running = running
        self._find = find

    def __missing__(self, name: str) -> PendingMembers:
        runs = self._running(name) if self._running is not None else ()
        waiting = self._waiting[name] if self._find is None else self._find(name)
        found = self[name] = find_pending_members(waiting, runs, self._node)
        return found

    @cached_property
    def _waiting(self) -> Mapping[str, WaitingClass]:
        return {one.gang.id: one for one in self._classes if one.gang is not None}


def _list_roles(group: GangGroup, at: Path = ()) -> list[tuple[Path, GangRole]]:
    found = list[tuple[Path, GangRole]]()
    for place, one in enumerate(group.parts):
        found += (
            [((*at, place), one)] if isinstance(one, GangRole) else _list_roles(one, (*at, place))
        )
    return found


def sum_least_amount(work: PlanningTransaction, asked: PendingMembers) -> ResourceAmount:
    """Add up the least that the needed members will hold together."""
    found = list[tuple[Shape, ResourceAmount]]()
    for path, count in asked.least.items():
        shape = asked.roles[path].shape
        each = work.compute_least(shape)
        found.append((shape, ResourceAmount(each.gpu_milli * count, each.memory_bytes * count)))
    return GangAmount.sum_roles(found)


def find_next_member_amount(work: PlanningTransaction, asked: PendingMembers) -> ResourceAmount:
    """Return the least that one more member will hold."""
    each = list[ResourceAmount]()
    for path, jobs in asked.waiting.items():
        if jobs:
            each.append(work.compute_least(asked.roles[path].shape))
    return min(
        each, key=lambda amount: (amount.gpu_milli, amount.memory_bytes), default=ResourceAmount()
    )


def count_room_by_role(work: PlanningTransaction, asked: PendingMembers) -> Counter[Path]:
    """Count by role how many of the needed members fit when each role is looked at alone.

    In the domain that holds most. Domains of inner groups are not looked at: it counts, it does not
    try.
    """
    depth = find_depth(work.levels, asked.gang.root.within.required)
    copies = dict[Path, Ints]()
    for path, count in asked.least.items():
        if count:
            copies[path] = work.count_fits(asked.roles[path].shape)
    if not depth:
        return _count_needed(copies, asked.least, slice(None))
    of_node = work.levels[depth - 1].of_node
    best: Counter[Path] = Counter()
    # Nodes outside every domain of the level (-1) cannot hold a gang that requires one.
    for key in np.unique(of_node[of_node >= 0]):
        room = _count_needed(copies, asked.least, of_node == key)
        best = room if room.total() > best.total() else best
    return best


def _count_needed(
    copies: Mapping[Path, Ints], least: Mapping[Path, int], nodes: Bools | slice
) -> Counter[Path]:
    """By role the members that fit on these nodes, at most those that are needed."""
    room = Counter[Path]()
    for path, found in copies.items():
        room[path] = min(int(found[nodes].sum()), least[path])
    return room
