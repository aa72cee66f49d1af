"""Seats for a gang: all of its minimum or nothing, then as much of the rest as finds room.

A gang is tried as a whole on the working copy. Each group looks for the tightest domain that holds it; inside a domain
members go where the policy puts them. What was tried in vain is rolled back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gpupool.model.claim import ANYWHERE, Shape
from gpupool.model.gang import Gang, Group, Role
from gpupool.model.quota import Amount
from gpupool.scheduling.domains import Domain, Need, candidates, depth_of, part
from gpupool.scheduling.role_amounts import GangAmount
from gpupool.scheduling.snapshot import Bools, Ints, Level, Running, Waiting
from gpupool.scheduling.work import Mark, Seated, Work

Path = tuple[int, ...]
"""A role's or a group's place in the tree: the number of the part at each depth."""


@dataclass(frozen=True)
class Missing:
    """A gang's members without a seat, by role: `waiting` job ids, of which the first `least` are needed at once."""

    gang: Gang
    roles: Mapping[Path, Role]
    waiting: Mapping[Path, tuple[str, ...]]
    least: Mapping[Path, int]
    nodes: Mapping[Path, frozenset[int]]
    """Where members of the role sit already."""

    @property
    def sort(self) -> Hashable:
        """Gangs of one sort find room for their minimum, or do not, on the same pool."""
        return self.gang.root, tuple(self.least.items()), tuple(self.nodes.items())

    @property
    def whole(self) -> dict[Path, int]:
        """By role, everybody who waits."""
        return {path: len(jobs) for path, jobs in self.waiting.items()}

    @property
    def needed(self) -> int:
        return sum(self.least.values())

    def after(self, found: Iterable[tuple[str, Seated]]) -> Missing:
        """Who is missing still when these have their seats, the needed ones being among them."""
        seats = dict(found)
        left = {path: tuple(job for job in jobs if job not in seats) for path, jobs in self.waiting.items()}
        nodes = {
            path: self.nodes[path] | {seats[job].node for job in jobs if job in seats}
            for path, jobs in self.waiting.items()
        }
        return replace(self, waiting=left, least=dict.fromkeys(self.least, 0), nodes=nodes)


def missing(waiting: Waiting, running: Sequence[Running], node_of_row: Ints) -> Missing:
    """Who of the entry's gang waits, and for how many it needs seats before any of them starts.

    A member that is not among the entry's heads has had its seat: it runs, or it has ended.
    """
    assert waiting.gang is not None
    gang, heads, members = waiting.gang, set(waiting.heads), iter(waiting.gang.members)
    where = {job.job: int(node_of_row[job.rows[0]]) for job in running if job.gang == gang.id and job.rows}
    roles, left = dict(_roles(gang.root)), dict[Path, tuple[str, ...]]()
    least, nodes = dict[Path, int](), dict[Path, frozenset[int]]()
    for path, role in roles.items():
        mine = [next(members) for _ in range(role.desired)]
        left[path] = tuple(job for job in mine if job in heads)
        least[path] = max(0, role.minimum - (role.desired - len(left[path])))
        nodes[path] = frozenset(where[job] for job in mine if job in where)
    return Missing(gang, roles, left, least, nodes)


class Gangs(dict[str, Missing]):
    """By id, what is missing of every gang that waits; worked out when somebody asks for it."""

    def __init__(
        self,
        waiting: Iterable[Waiting],
        node_of_row: Ints,
        running: Callable[[str], Sequence[Running]] | None = None,
        find: Callable[[str], Waiting] | None = None,
    ) -> None:
        """`running` tells which members of a gang run; without it none does. `find` gives the entry of a gang."""
        super().__init__()
        self._classes, self._node, self._running = waiting, node_of_row, running
        self._find = find

    def __missing__(self, name: str) -> Missing:
        runs = self._running(name) if self._running is not None else ()
        waiting = self._waiting[name] if self._find is None else self._find(name)
        found = self[name] = missing(waiting, runs, self._node)
        return found

    @cached_property
    def _waiting(self) -> Mapping[str, Waiting]:
        return {one.gang.id: one for one in self._classes if one.gang is not None}


def _roles(group: Group, at: Path = ()) -> list[tuple[Path, Role]]:
    found = list[tuple[Path, Role]]()
    for place, one in enumerate(group.parts):
        found += [((*at, place), one)] if isinstance(one, Role) else _roles(one, (*at, place))
    return found


def least_amount(work: Work, asked: Missing) -> Amount:
    """The least that the needed members will hold together."""
    found = list[tuple[Shape, Amount]]()
    for path, count in asked.least.items():
        shape = asked.roles[path].shape
        each = work.least(shape)
        found.append((shape, Amount(each.gpu_milli * count, each.memory_bytes * count)))
    return GangAmount.of(found)


def next_member(work: Work, asked: Missing) -> Amount:
    """The least that one more member will hold."""
    each = (work.least(asked.roles[path].shape) for path, jobs in asked.waiting.items() if jobs)
    return min(each, key=lambda amount: (amount.gpu_milli, amount.memory_bytes), default=Amount())


class Seats(Protocol):
    """Where a gang takes its seats: the working copy, or one on which room is made first."""

    levels: tuple[Level, ...]

    def seat_many(self, tenant: str, shape: Shape, count: int, among: Bools | None = None) -> list[Seated]: ...

    def copies(self, shape: Shape) -> Ints: ...

    def mark(self) -> Mark: ...

    def rollback(self, mark: Mark) -> None: ...

    def keep(self, mark: Mark) -> None: ...


class Muster:
    """One gang looking for its seats (only inside these nodes, if any are named); what it finds is taken."""

    def __init__(self, work: Seats, tenant: str, asked: Missing, inside: Bools | None = None) -> None:
        self._work, self._tenant, self._asked = work, tenant, asked
        self._domains: dict[Path, Domain] = {}
        self._seated: dict[Path, list[Seated]] = defaultdict(list)
        self._all = np.ones(len(work.levels[-1].of_node), dtype=np.bool_) if inside is None else inside

    def gather(self) -> list[tuple[str, Seated]]:
        """Members and their seats; empty, and nothing taken, when the minimum finds no room."""
        whole, least = self._asked.whole, self._asked.least
        if not self._try(whole) and (whole == least or not self._try(least)):
            return []
        for path, count in whole.items():
            self._more(path, count - len(self._seated[path]))
        return self._found()

    def gather_least(self) -> list[tuple[str, Seated]]:
        """The minimum alone; empty, and nothing taken, when it finds no room."""
        return self._found() if self._try(self._asked.least) else []

    def _found(self) -> list[tuple[str, Seated]]:
        waiting = self._asked.waiting
        return [pair for path in waiting for pair in zip(waiting[path], self._seated[path], strict=False)]

    def _try(self, counts: Mapping[Path, int]) -> bool:
        """All of these together, or none."""
        self._domains.clear()
        return self._group(self._asked.gang.root, (), Domain(self._all, 0), counts)

    def _more(self, path: Path, count: int) -> None:
        self._seats(path, self._asked.roles[path], self._domains[path[:-1]].nodes, count)

    # --- groups ---------------------------------------------------------------------------

    def _group(self, group: Group, path: Path, around: Domain, counts: Mapping[Path, int]) -> bool:
        inside = self._anchored(group, path, around.nodes)
        for domain in self._candidates(group, path, Domain(inside, around.depth), counts):
            mark, seated = self._work.mark(), {at: len(found) for at, found in self._seated.items()}
            if all(self._part(group, (*path, place), domain, counts) for place in _hardest_first(group)):
                self._work.keep(mark)
                self._domains[path] = domain
                return True
            self._work.rollback(mark)
            for at, found in self._seated.items():
                del found[seated.get(at, 0) :]
        return False

    def _candidates(self, group: Group, path: Path, around: Domain, counts: Mapping[Path, int]) -> Iterator[Domain]:
        copies = self._work.copies
        below = [(at, n) for at, n in counts.items() if at[: len(path)] == path and n]
        needs = [Need(copies(self._asked.roles[at].shape).copy(), n) for at, n in below]
        for one in candidates(self._work.levels, group.within, around.nodes, needs):
            yield Domain(one.nodes, max(one.depth, around.depth))

    def _anchored(self, group: Group, path: Path, nodes: Bools) -> Bools:
        """Where members sit already, the required domain is theirs."""
        depth = depth_of(self._work.levels, group.within.required)
        sit = sorted(n for at, found in self._asked.nodes.items() if at[: len(path)] == path for n in found)
        if not depth or not sit:
            return nodes
        of_node = self._work.levels[depth - 1].of_node
        mine: Bools = nodes & (of_node == of_node[sit[0]])
        return mine

    def _part(self, group: Group, path: Path, domain: Domain, counts: Mapping[Path, int]) -> bool:
        one = group.parts[path[-1]]
        if isinstance(one, Group):
            return self._group(one, path, domain, counts)
        count = counts[path]
        return self._fill(path, one, domain, count, self._floor(group)) == count

    def _floor(self, group: Group) -> tuple[int, bool]:
        """How deep to look for parts of a domain, and whether to touch few of them."""
        preferred = depth_of(self._work.levels, group.within.preferred)
        if preferred:
            return preferred, True
        return (0 if group.within == ANYWHERE else len(self._work.levels) - 1), False

    # --- members --------------------------------------------------------------------------

    def _fill(self, path: Path, role: Role, domain: Domain, count: int, floor: tuple[int, bool]) -> int:
        """How many of so many members found a seat in the domain, its parts filled one after the other."""
        if domain.depth >= floor[0]:
            return self._seats(path, role, domain.nodes, count)
        placed, tried = 0, np.zeros_like(self._all)
        while placed < count:
            copies = np.where(tried, 0, self._work.copies(role.shape))
            inner = part(self._work.levels, domain, copies, count - placed, near=floor[1])
            if inner is None:
                return placed + self._seats(path, role, domain.nodes, count - placed)
            placed += self._fill(path, role, inner, count - placed, floor)
            tried |= inner.nodes
        return placed

    def _seats(self, path: Path, role: Role, nodes: Bools, count: int) -> int:
        """How many of so many members found a seat on these nodes."""
        seated = self._work.seat_many(self._tenant, role.shape, count, nodes)
        self._seated[path] += seated
        return len(seated)


def _hardest_first(group: Group) -> list[int]:
    """Numbers of the group's parts: groups that must be near together, then roles by the compute a member holds."""

    def ease(place: int) -> tuple[bool, int]:
        one = group.parts[place]
        if isinstance(one, Group):
            return False, 0 if one.within.required else 1
        return True, -one.shape.gpu_milli * max(one.shape.count, 1)

    return sorted(range(len(group.parts)), key=ease)


def room_by_role(work: Work, asked: Missing) -> Counter[Path]:
    """By role, how many of those needed find room when each role is looked at alone, in the domain that holds most.

    Domains of inner groups are not looked at: it counts, it does not try.
    """
    depth = depth_of(work.levels, asked.gang.root.within.required)
    copies = {path: work.copies(asked.roles[path].shape) for path, count in asked.least.items() if count}
    if not depth:
        return Counter({path: min(int(found.sum()), asked.least[path]) for path, found in copies.items()})
    of_node = work.levels[depth - 1].of_node
    best: Counter[Path] = Counter()
    for key in np.unique(of_node[of_node >= 0]):
        inside = of_node == key
        room = Counter({path: min(int(found[inside].sum()), asked.least[path]) for path, found in copies.items()})
        best = room if room.total() > best.total() else best
    return best
