"""Gang placement: seats for all of a gang's minimum or for none, then for as many others as fit.

A gang is tried as a whole on the working copy. Each group looks for the tightest domain that holds
it; inside a domain the policy places members. What was tried in vain is rolled back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from gpupool.model.claim import ANYWHERE, Shape
from gpupool.model.gang import GangGroup, GangRole
from gpupool.scheduling.filtering.domains import (
    MemberDemand,
    TopologyDomain,
    choose_part,
    find_depth,
    iterate_candidates,
)
from gpupool.scheduling.snapshot.cards import TopologyLevel
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.workspace.pending_members import Path, PendingMembers
from gpupool.scheduling.workspace.seat_steps import TransactionMark
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)


class SeatSource(Protocol):
    """Where a gang takes its seats: the working copy, or one on which victims are released first."""

    levels: tuple[TopologyLevel, ...]

    def seat_claims(
        self, tenant: str, shape: Shape, count: int, among: Bools | None = None
    ) -> list[TentativePlacement]: ...

    def count_fits(self, shape: Shape) -> Ints: ...

    def mark(self) -> TransactionMark: ...

    def rollback(self, mark: TransactionMark) -> None: ...

    def keep(self, mark: TransactionMark) -> None: ...


class GangPlacement:
    """The search of one gang for its seats, only on these nodes if any are named; it takes what it
    finds.
    """

    def __init__(
        self, work: SeatSource, tenant: str, asked: PendingMembers, inside: Bools | None = None
    ) -> None:
        self._work = work
        self._tenant = tenant
        self._asked = asked
        self._domains: dict[Path, TopologyDomain] = {}
        self._seated: dict[Path, list[TentativePlacement]] = defaultdict(list)
        self._all = (
            np.ones(len(work.levels[-1].of_node), dtype=np.bool_) if inside is None else inside
        )

    def try_place(self) -> list[tuple[str, TentativePlacement]]:
        """Place the gang: its minimum, and as many other members as fit.

        Returns:
            Members and their seats; empty, and nothing taken, when the minimum finds no room.
        """
        whole = self._asked.all_counts
        least = self._asked.least
        # All members at once find a tighter domain for the gang than its minimum with the rest
        # beside it.
        if not self._place_counts(whole) and (whole == least or not self._place_counts(least)):
            return []
        for path, count in whole.items():
            self._place_more(path, count - len(self._seated[path]))
        return self._list_placements()

    def try_place_minimum(self) -> list[tuple[str, TentativePlacement]]:
        """Place the minimum alone; empty, and nothing taken, when it finds no room."""
        return self._list_placements() if self._place_counts(self._asked.least) else []

    def _list_placements(self) -> list[tuple[str, TentativePlacement]]:
        waiting = self._asked.waiting
        found = list[tuple[str, TentativePlacement]]()
        for path, jobs in waiting.items():
            # Not strict: members beyond the minimum may have no seat.
            found += zip(jobs, self._seated[path], strict=False)
        return found

    def _place_counts(self, counts: Mapping[Path, int]) -> bool:
        """All of these members together, or none."""
        self._domains.clear()
        return self._place_group(self._asked.gang.root, (), TopologyDomain(self._all, 0), counts)

    def _place_more(self, path: Path, count: int) -> None:
        self._seat_members(path, self._asked.roles[path], self._domains[path[:-1]].nodes, count)

    # --- groups ---------------------------------------------------------------------------

    def _place_group(
        self, group: GangGroup, path: Path, around: TopologyDomain, counts: Mapping[Path, int]
    ) -> bool:
        inside = self._restrict_to_members(group, path, around.nodes)
        for domain in self._iterate_domains(
            group, path, TopologyDomain(inside, around.depth), counts
        ):
            mark = self._work.mark()
            # The working copy is rolled back by its mark, this list by its lengths.
            seated = {at: len(found) for at, found in self._seated.items()}
            if self._place_parts(group, path, domain, counts):
                self._work.keep(mark)
                self._domains[path] = domain
                return True
            self._work.rollback(mark)
            for at, found in self._seated.items():
                del found[seated.get(at, 0) :]
        return False

    def _iterate_domains(
        self, group: GangGroup, path: Path, around: TopologyDomain, counts: Mapping[Path, int]
    ) -> Iterator[TopologyDomain]:
        needs = list[MemberDemand]()
        for at, count in counts.items():
            if count and at[: len(path)] == path:
                # A copy: counts change as members take seats while the domains are tried.
                fits = self._work.count_fits(self._asked.roles[at].shape).copy()
                needs.append(MemberDemand(fits, count))
        for one in iterate_candidates(self._work.levels, group.within, around.nodes, needs):
            yield TopologyDomain(one.nodes, max(one.depth, around.depth))

    def _restrict_to_members(self, group: GangGroup, path: Path, nodes: Bools) -> Bools:
        """Where members run already, the required domain is theirs."""
        depth = find_depth(self._work.levels, group.within.required)
        sit = set[int]()
        for at, nodes_of_role in self._asked.nodes.items():
            if at[: len(path)] == path:
                sit |= nodes_of_role
        if not depth or not sit:
            return nodes
        of_node = self._work.levels[depth - 1].of_node
        # Any of them: all members of the group run in one domain.
        mine: Bools = nodes & (of_node == of_node[min(sit)])
        return mine

    def _place_parts(
        self, group: GangGroup, path: Path, domain: TopologyDomain, counts: Mapping[Path, int]
    ) -> bool:
        for place in _order_parts(group):
            inner = (*path, place)
            if not self._place_part(group, inner, domain, counts):
                return False
        return True

    def _place_part(
        self, group: GangGroup, path: Path, domain: TopologyDomain, counts: Mapping[Path, int]
    ) -> bool:
        one = group.parts[path[-1]]
        if isinstance(one, GangGroup):
            return self._place_group(one, path, domain, counts)
        count = counts[path]
        return self._fill_domain(path, one, domain, count, self._choose_depth(group)) == count

    def _choose_depth(self, group: GangGroup) -> tuple[int, bool]:
        """How deep to look for parts of a domain, and whether to touch few of them."""
        preferred = find_depth(self._work.levels, group.within.preferred)
        if preferred:
            return preferred, True
        return (0 if group.within == ANYWHERE else len(self._work.levels) - 1), False

    # --- members --------------------------------------------------------------------------

    def _fill_domain(
        self,
        path: Path,
        role: GangRole,
        domain: TopologyDomain,
        count: int,
        floor: tuple[int, bool],
    ) -> int:
        """Number of members that found a seat in the domain, its parts filled one after the other."""
        if domain.depth >= floor[0]:
            return self._seat_members(path, role, domain.nodes, count)
        placed = 0
        tried = np.zeros_like(self._all)
        while placed < count:
            copies = np.where(tried, 0, self._work.count_fits(role.shape))
            inner = choose_part(self._work.levels, domain, copies, count - placed, near=floor[1])
            if inner is None:
                return placed + self._seat_members(path, role, domain.nodes, count - placed)
            placed += self._fill_domain(path, role, inner, count - placed, floor)
            # A part is filled once. What did not fit there fits no better later, and the loop ends.
            tried |= inner.nodes
        return placed

    def _seat_members(self, path: Path, role: GangRole, nodes: Bools, count: int) -> int:
        """Number of members that found a seat on these nodes."""
        seated = self._work.seat_claims(self._tenant, role.shape, count, nodes)
        self._seated[path] += seated
        return len(seated)


def _order_parts(group: GangGroup) -> list[int]:
    """The group's parts, hardest first: groups that must be near together, then roles by compute."""

    def ease(place: int) -> tuple[bool, int]:
        one = group.parts[place]
        if isinstance(one, GangGroup):
            return False, 0 if one.within.required else 1
        return True, -one.shape.gpu_milli * max(one.shape.count, 1)

    # Stable: equal parts in the order of the user's file, so that equal gangs are placed alike.
    return sorted(range(len(group.parts)), key=ease)
