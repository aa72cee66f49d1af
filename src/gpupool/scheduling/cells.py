"""Quota in whole cells: nodes and NVLink domains that stay whole for whom they were promised.

A count of cards does not keep a node whole: the last free cards of a pool may lie on eight nodes (Zhao et al., HiveD,
OSDI 2020). So a tenant's guaranteed cells are bound and kept. A cell is bound to a tenant while it is alone on it; what
is bound inside the kept part (nominal less lending) is closed to others, and of the untouched cells others leave as
many as are owed. Untouched is a cell without any holder, with every card open.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from gpupool.model.quota import CELLS, NODE, Resource, parts
from gpupool.model.topology import LinkKind
from gpupool.scheduling.feasible import kinds_of
from gpupool.scheduling.free import Free
from gpupool.scheduling.quota_node import Node
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.snapshot import Bools, Cards, Ints, Running

NOBODY, SEVERAL = -1, -2


class CellQuotas:
    """Every kind of cell that somebody is guaranteed; costs nothing where there is none."""

    def __init__(self, tree: Tree, free: Free, running: Iterable[Running]) -> None:
        self._log: list[tuple[str, Ints, int]] = []
        self._kinds = [Cells(r, tree, free) for r in sorted(tree.resources) if parts(r)[0] in CELLS]
        for job in running if self._kinds else ():
            if job.tenant in tree.leaves:
                self.take(job.tenant, np.array(job.rows, dtype=np.int64))
        for kind in self._kinds:
            kind.close_unknown(free)
        self._log.clear()

    @property
    def counted(self) -> bool:
        """Whether anybody is guaranteed cells."""
        return bool(self._kinds)

    def closed(self, tenant: str) -> Bools | None:
        """Cards that are not for this tenant now; None when there is none."""
        if not self._kinds:
            return None
        masks = [mask for mask in (kind.closed(tenant) for kind in self._kinds) if mask is not None]
        return np.logical_or.reduce(masks) if masks else None

    def take(self, tenant: str, rows: Ints) -> None:
        self._note(tenant, rows, 1)

    def give(self, tenant: str, rows: Ints) -> None:
        """The exact opposite of `take`."""
        self._note(tenant, rows, -1)

    def mark(self) -> int:
        """Where a trial begins."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        for tenant, rows, seats in reversed(self._log[mark:]):
            self._change(tenant, rows, -seats)
        del self._log[mark:]

    def _note(self, tenant: str, rows: Ints, seats: int) -> None:
        if self._kinds:
            self._change(tenant, rows, seats)
            self._log.append((tenant, rows, seats))

    def _change(self, tenant: str, rows: Ints, seats: int) -> None:
        for kind in self._kinds:
            kind.change(tenant, rows, seats)


class Cells:
    """The cells of one resource, and who is alone on each."""

    def __init__(self, resource: Resource, tree: Tree, free: Free) -> None:
        self.resource, self._tree = resource, tree
        self.of_row = cell_of_row(resource, free.cards)
        count = int(self.of_row.max(initial=-1)) + 1
        self._names = list(tree.leaves)
        self._number = {name: i for i, name in enumerate(self._names)}
        self._holders: list[Counter[str]] = [Counter() for _ in range(count)]
        self.owner = np.full(count, NOBODY, dtype=np.int64)
        shut = np.bincount(self.of_row[(self.of_row >= 0) & ~free.open], minlength=count)
        self._usable = shut == 0

    def change(self, tenant: str, rows: Ints, seats: int) -> None:
        """So many seats more (or less) of the tenant on each of these cards."""
        for cell in self.of_row[rows]:
            if cell >= 0:
                holders = self._holders[cell]
                holders[tenant] += seats
                if not holders[tenant]:
                    del holders[tenant]
                self._own(int(cell), holders)

    def close_unknown(self, free: Free) -> None:
        """A cell on which something is held that no known job holds is nobody's to have whole."""
        used = np.unique(self.of_row[~free.untouched() & free.open & (self.of_row >= 0)])
        self.owner[used[self.owner[used] == NOBODY]] = SEVERAL

    def closed(self, tenant: str) -> Bools | None:
        """Cards of cells that are bound to others, and untouched ones that are owed to others."""
        mine = self._tree.owed(tenant, self.resource)
        shut, owed = self._bound(mine)
        free = (self.owner == NOBODY) & self._usable
        full = self._tree.room(tenant, self.resource) == 0
        if full or (self._owed(mine) == 0 and int(np.count_nonzero(free)) <= owed):
            shut |= free
        return shut[self.of_row] & (self.of_row >= 0) if shut.any() else None

    def _bound(self, mine: Node) -> tuple[Bools, int]:
        """Which cells are bound to others than `mine` and kept, and how many more are owed to those."""
        shut, owed = np.zeros(len(self.owner), dtype=np.bool_), 0
        for node, numbers in self._groups().items():
            if node is not mine:
                cells = np.flatnonzero(np.isin(self.owner, numbers))
                seats = np.array([self._holders[cell].total() for cell in cells], dtype=np.int64)
                first = cells[np.argsort(-seats, kind="stable")]
                shut[first[: self._kept(node)]] = True
                owed += self._owed(node)
        return shut, owed

    def _groups(self) -> Mapping[Node, list[int]]:
        """Tenants by who guarantees them cells."""
        groups: dict[Node, list[int]] = defaultdict(list)
        for number, name in enumerate(self._names):
            groups[self._tree.owed(name, self.resource)].append(number)
        return groups

    def _kept(self, node: Node) -> int:
        limit = node.limits.get(self.resource)
        return 0 if limit is None else max(0, min(limit.kept, self._tree.cap(node, self.resource)))

    def _owed(self, node: Node) -> int:
        return max(0, self._kept(node) - node.own.get(self.resource, 0))

    def _own(self, cell: int, holders: Mapping[str, int]) -> None:
        before = int(self.owner[cell])
        (only,) = holders if len(holders) == 1 else (None,)
        after = SEVERAL if len(holders) > 1 else NOBODY if only is None else self._number[only]
        if before != after:
            for number, seats in ((before, -1), (after, 1)):
                if number >= 0:
                    self._tree.bind(self._names[number], self.resource, seats)
            self.owner[cell] = after


def cell_of_row(resource: Resource, cards: Cards) -> Ints:
    """Per card the number of its cell, -1 for cards in none; a cell of a model or vendor has only cards of it."""
    kind, named = parts(resource)
    cells = cards.node.copy() if kind == NODE else _islands(cards)
    if named is not None:
        other = np.array([not one.is_of(named) for one in kinds_of(cards)], dtype=np.bool_)[cards.model]
        cells[np.isin(cells, cells[other])] = -1
    return cells


def _islands(cards: Cards) -> Ints:
    """NVLink domains of more than one card, numbered in the order of their first card."""
    of_uuid: dict[str, int] = {}
    for node in sorted(cards.links):
        for island in cards.links[node].islands(LinkKind.NVLINK):
            if len(island) > 1:
                of_uuid |= dict.fromkeys(island, len(set(of_uuid.values())))
    return np.array([of_uuid.get(uuid, -1) for uuid in cards.uuids], dtype=np.int64)
