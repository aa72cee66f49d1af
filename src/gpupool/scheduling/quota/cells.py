"""Quota in whole cells: nodes and NVLink domains that stay whole for the tenants that own them.

A count of cards does not keep a node whole: the last free cards of a pool may lie on eight nodes
(Zhao et al., HiveD, OSDI 2020). A cell is bound to a tenant while no other tenant is on it. Cells
bound inside the kept part (nominal less lending) are closed to others. Others also leave as many
untouched cells as tenants may still claim. An untouched cell has no holder and all cards open.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from gpupool.model.quota import CELLS, NODE, Resource, split_resource
from gpupool.model.topology import LinkKind
from gpupool.scheduling.filtering.feasibility import list_card_kinds
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import QuotaNode
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: Owner of a cell without holders; tenants are numbered from 0.
NOBODY = -1
#: Owner of a cell with holders of several tenants, or with use of no known job: no tenant's.
SEVERAL = -2


class CellQuotas:
    """All kinds of cells that have a quota; costs nothing where there is none."""

    def __init__(self, tree: QuotaTree, free: FreeCapacity, running: Iterable[RunningJob]) -> None:
        self._log: list[tuple[str, Ints, int]] = []
        self._kinds = list[CellKind]()
        for resource in sorted(tree.resources):
            if split_resource(resource)[0] in CELLS:
                self._kinds.append(CellKind(resource, tree, free))
        for job in running if self._kinds else ():
            if job.tenant in tree.leaves:
                self.add_seats(job.tenant, np.array(job.rows, dtype=np.int64))
        for kind in self._kinds:
            kind.close_cells_of_unknown_jobs(free)
        self._log.clear()

    @property
    def has_cells(self) -> bool:
        """Whether any tenant is guaranteed cells."""
        return bool(self._kinds)

    def find_closed_cards(self, tenant: str) -> Bools | None:
        """Return the cards that are closed to this tenant now; None when there is none."""
        if not self._kinds:
            return None
        closed: Bools | None = None
        for kind in self._kinds:
            mask = kind.find_closed_cards(tenant)
            if mask is not None:
                closed = mask if closed is None else closed | mask
        return closed

    def add_seats(self, tenant: str, rows: Ints) -> None:
        """Record one seat of the tenant on each of these cards."""
        self._record(tenant, rows, 1)

    def remove_seats(self, tenant: str, rows: Ints) -> None:
        """Remove the seats; the exact opposite of `add_seats`."""
        self._record(tenant, rows, -1)

    def mark(self) -> int:
        """Return where a trial begins."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo every change since the mark."""
        for tenant, rows, seats in reversed(self._log[mark:]):
            self._change(tenant, rows, -seats)
        del self._log[mark:]

    def _record(self, tenant: str, rows: Ints, seats: int) -> None:
        if self._kinds:
            self._change(tenant, rows, seats)
            self._log.append((tenant, rows, seats))

    def _change(self, tenant: str, rows: Ints, seats: int) -> None:
        for kind in self._kinds:
            kind.change_seats(tenant, rows, seats)


class CellKind:
    """The cells of one resource, and the owner of each."""

    def __init__(self, resource: Resource, tree: QuotaTree, free: FreeCapacity) -> None:
        self.resource = resource
        self._tree = tree
        self.of_row = number_cells(resource, free.cards)
        count = int(self.of_row.max(initial=-1)) + 1
        self._names = list(tree.leaves)
        self._number = {name: i for i, name in enumerate(self._names)}
        self._holders: list[Counter[str]] = [Counter() for _ in range(count)]
        self.owner = np.full(count, NOBODY, dtype=np.int64)
        shut = np.bincount(self.of_row[(self.of_row >= 0) & ~free.open], minlength=count)
        # A cell with a card that is drained or broken cannot be handed over whole.
        self._usable = shut == 0

    def change_seats(self, tenant: str, rows: Ints, seats: int) -> None:
        """Change the tenant's seats on each of these cards by `seats`."""
        for cell in self.of_row[rows]:
            if cell >= 0:
                holders = self._holders[cell]
                holders[tenant] += seats
                if not holders[tenant]:
                    del holders[tenant]
                self._update_owner(int(cell), holders)

    def close_cells_of_unknown_jobs(self, free: FreeCapacity) -> None:
        """Mark cells as shared on which cards are in use by no known job."""
        used = np.unique(self.of_row[~free.is_untouched() & free.open & (self.of_row >= 0)])
        # Use that no job in the snapshot explains (a job of a deleted tenant) makes a cell no
        # one's, not free: a tenant must not be promised it whole.
        self.owner[used[self.owner[used] == NOBODY]] = SEVERAL

    def find_closed_cards(self, tenant: str) -> Bools | None:
        """Return the cards of cells bound to others, and of untouched cells that others may still
        claim.
        """
        mine = self._tree.find_guarantor(tenant, self.resource)
        shut, owed = self._find_bound_cells(mine)
        free = (self.owner == NOBODY) & self._usable
        # Untouched cells are closed to a tenant that may bind no more of them, or where all of them
        # are needed for the cells that others may still claim.
        full = self._tree.get_room(tenant, self.resource) == 0
        if full or (self._count_outstanding(mine) == 0 and int(np.count_nonzero(free)) <= owed):
            shut |= free
        return shut[self.of_row] & (self.of_row >= 0) if shut.any() else None

    def _find_bound_cells(self, mine: QuotaNode) -> tuple[Bools, int]:
        """Return the cells that are bound to others and kept, and how many more those others may
        claim.
        """
        shut = np.zeros(len(self.owner), dtype=np.bool_)
        owed = 0
        for node, numbers in self._group_tenants().items():
            if node is not mine:
                cells = np.flatnonzero(np.isin(self.owner, numbers))
                seats = np.array([self._holders[cell].total() for cell in cells], dtype=np.int64)
                # The fullest cells are the kept ones: of a node with more cells than it keeps, the
                # others, which are nearly empty, are open to all. Stable, so that equal cells are
                # closed in order of their number.
                first = cells[np.argsort(-seats, kind="stable")]
                shut[first[: self._count_reserved(node)]] = True
                owed += self._count_outstanding(node)
        return shut, owed

    def _group_tenants(self) -> Mapping[QuotaNode, list[int]]:
        """GangGroup tenant numbers by the node that guarantees them cells."""
        groups: dict[QuotaNode, list[int]] = defaultdict(list)
        for number, name in enumerate(self._names):
            groups[self._tree.find_guarantor(name, self.resource)].append(number)
        return groups

    def _count_reserved(self, node: QuotaNode) -> int:
        limit = node.limits.get(self.resource)
        return (
            0
            if limit is None
            else max(0, min(limit.unlent, self._tree.get_guarantee(node, self.resource)))
        )

    def _count_outstanding(self, node: QuotaNode) -> int:
        return max(0, self._count_reserved(node) - node.own.get(self.resource, 0))

    def _update_owner(self, cell: int, holders: Mapping[str, int]) -> None:
        before = int(self.owner[cell])
        (only,) = holders if len(holders) == 1 else (None,)
        after = SEVERAL if len(holders) > 1 else NOBODY if only is None else self._number[only]
        if before != after:
            for number, seats in ((before, -1), (after, 1)):
                if number >= 0:
                    self._tree.bind_cells(self._names[number], self.resource, seats)
            self.owner[cell] = after


def number_cells(resource: Resource, cards: CardTable) -> Ints:
    """Return the number of each card's cell, -1 where it is in none.

    A cell of a model or vendor has only cards of that model or vendor.
    """
    kind, named = split_resource(resource)
    cells = cards.node.copy() if kind == NODE else _number_islands(cards)
    if named is not None:
        other = np.array([not one.is_of(named) for one in list_card_kinds(cards)], dtype=np.bool_)[
            cards.model
        ]
        # A node with one card of another model is no cell of this model: it is never whole for it.
        cells[np.isin(cells, cells[other])] = -1
    return cells


def _number_islands(cards: CardTable) -> Ints:
    """NVLink domains of more than one card, numbered in the order of their first card."""
    of_uuid: dict[str, int] = {}
    for node in sorted(cards.links):
        for island in cards.links[node].list_domains(LinkKind.NVLINK):
            if len(island) > 1:
                of_uuid |= dict.fromkeys(island, len(set(of_uuid.values())))
    return np.array([of_uuid.get(uuid, -1) for uuid in cards.uuids], dtype=np.int64)
