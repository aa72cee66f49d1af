"""The working copy of what is free, per card and per host, that lives as long as its pool.

This is the only mutable thing in the scheduler. It knows numbers, not rules: whether a claim may take something is
decided in `feasible`. Every note (`take`, `give`, `set`, `set_hosts`) changes the columns in place, so that whoever
holds a view of them keeps it, and adds the node to a list that each cache reads from where it last stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.partition import Placement as Place
from gpupool.scheduling.kernel import Kernel, kernel_for
from gpupool.scheduling.kernel_calls import Amounts, Places
from gpupool.scheduling.numa import Division, Numa
from gpupool.scheduling.snapshot import CARD_STATUS, Bools, Cards, CardStatus, Ints

UNLIMITED = 1 << 62
"""What is free of processors and main memory where nothing is known of them."""

NO_CARD = -1
"""In `Free.grid`: no open card is there."""

_LEAST_KEPT = 4096
_NONE: Ints = np.empty(0, dtype=np.int64)


class Cursor(NamedTuple):
    """How far a cache has read the list of changed nodes."""

    epoch: int
    position: int


class Listed(NamedTuple):
    """Where numbers of changed nodes lie, and how many."""

    at: int
    number: int


NEVER_READ = Cursor(-1, 0)
"""Of a cache that knows nothing: everything has changed since."""

Recut = tuple[int, Place, bool]
"""A row, a piece of it, and whether the piece is taken (or given back)."""


class _Step(NamedTuple):
    """One change as it can be undone: what was added to each column, and which pieces were taken or given back."""

    node: int | Ints
    """Several where it is cards alone that change."""
    rows: Ints
    milli: Ints | int
    sizes: Ints | int
    cpu_milli: int
    host_bytes: int
    recut: tuple[Recut, ...] = ()
    numa: Division | None = None


class Free:
    """Free compute and memory by card (`milli`, `size`), of the host by node (`cpu_milli`, `host_bytes`).

    `numa` has the host's by NUMA node, where that is known; it follows what is taken and given with a `Division`.

    `rank` is a permutation of the nodes that decides ties: the lowest wins. By default it mixes the nodes' places in
    the snapshot, so that names play no part in it and neighbours in a list (often one kind of machine) do not follow
    each other; a node that is appended changes the order of no others. `order` gives another one, best node first.
    `compiled` says whether the kernel looks and rates, or NumPy (None: the kernel where there is one).
    """

    def __init__(self, cards: Cards, order: Ints | None = None, compiled: bool | None = None) -> None:
        self.cards = cards
        self.kernel = kernel_for(cards, compiled)
        self.milli = cards.free_milli.copy()
        self.size = cards.free_bytes.copy()
        self.cpu_milli, self.host_bytes = _free_of_hosts(cards)
        self.numa = Numa(cards)
        self.open = cards.status == CARD_STATUS.index(CardStatus.OPEN)
        """To shares and whole claims; what is in partition mode is for partitions alone."""
        self.open[np.fromiter(cards.cuts, dtype=np.int64)] = False
        self.cuts = dict(cards.cuts)
        """By row, cards in partition mode; pieces that are kept for somebody may lie over others."""
        self.order = mixed_order(len(cards.nodes)) if order is None else order
        self.rank = np.argsort(self.order)
        self.rows = 0
        self.looked = np.zeros(len(cards.nodes), dtype=np.int64)
        """By node, the last look of the kernel; looks are numbered."""
        self._looks = 0
        self.moved = 0
        """Compute that was taken and given back so far, added up, in milli-devices."""
        self._by_node = np.argsort(cards.node, kind="stable")
        self._starts = np.searchsorted(cards.node[self._by_node], np.arange(len(cards.nodes) + 1))
        self._lay_out_grid()
        self._all = np.arange(len(cards.nodes))
        self._changes = np.empty(max(_LEAST_KEPT, 4 * len(cards.nodes)), dtype=np.int64)
        self._position = self._epoch = 0
        self._all_at, self._changes_at = self._all.ctypes.data, self._changes.ctypes.data
        self._amounts = None if self.kernel is None else self._in_c(self.kernel)
        self._last: tuple[Cursor, int, Ints] | None = None
        self._undo: list[_Step] = []
        self._marks: list[int] = []
        self._labelled: dict[tuple[str, str], Bools] = {}

    # --- who is where ---------------------------------------------------------------------

    def of_node(self, node: int) -> Ints:
        """Rows of a node's cards, in the order of their index."""
        return self._by_node[self._starts[node] : self._starts[node + 1]]

    def seats(self, nodes: Ints) -> tuple[Ints, Bools]:
        """Rows of these nodes' cards, one line per node, and which places of a line are cards at all."""
        return self._table[nodes], self._there[nodes]

    def grid(self, nodes: Ints) -> Ints:
        """Free compute, one line per node in the order of its cards' index; NO_CARD where no open card is.

        `cells` is the whole of it, changed in place as the columns are.
        """
        return self.cells[nodes]

    def count_by_node(self, chosen: Bools) -> Ints:
        """How many of each node's cards are chosen."""
        return np.bincount(self.cards.node[chosen], minlength=len(self.cards.nodes))

    def highest_by_node(self, column: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """The highest value among each node's cards; 0 for a node without any."""
        highest = np.zeros(len(self.cards.nodes), dtype=np.int8)
        some = self._starts[1:] > self._starts[:-1]
        if some.any():
            highest[some] = np.maximum.reduceat(column[self._by_node], self._starts[:-1][some])
        return highest

    def untouched(self, rows: Ints | slice = slice(None)) -> Bools:
        """Which open cards hold nothing at all, neither compute nor memory."""
        whole: Bools = (self.milli[rows] >= WHOLE) & (self.size[rows] >= self.cards.memory_bytes[rows])
        whole &= self.open[rows]
        return whole

    def labelled(self, label: tuple[str, str]) -> Bools:
        """Which nodes carry the label; looked up once per label."""
        if label not in self._labelled:
            self._labelled[label] = _carrying(label, self.cards.node_labels)
        return self._labelled[label]

    # --- what happened --------------------------------------------------------------------

    def take(
        self,
        node: int,
        rows: Ints,
        milli: int,
        sizes: Ints,
        cpu_milli: int = 0,
        host_bytes: int = 0,
        places: tuple[Place, ...] = (),
        numa: Division | None = None,
    ) -> None:
        """Hold that much on each of these cards of the node, and of its processors and main memory.

        `places`: for partitions, which piece of each card. `numa`: how it is divided over the host's NUMA nodes.
        """
        recut = _recut(rows, places, taken=False)
        self._change(_undone(_Step(node, rows, milli, sizes, cpu_milli, host_bytes, recut, numa)))

    def give(
        self,
        node: int,
        rows: Ints,
        milli: int,
        sizes: Ints,
        cpu_milli: int = 0,
        host_bytes: int = 0,
        places: tuple[Place, ...] = (),
        numa: Division | None = None,
    ) -> None:
        """Give back what was taken with the same arguments."""
        recut = _recut(rows, places, taken=False)
        self._change(_Step(node, rows, milli, sizes, cpu_milli, host_bytes, recut, numa))

    def recut(self, changes: Iterable[Recut]) -> None:
        """Pieces that are taken or given back, and nothing else."""
        none = np.zeros(0, dtype=np.int64)
        for one in changes:
            self._change(_Step(int(self.cards.node[one[0]]), none, 0, 0, 0, 0, (one,)))

    def set(self, rows: Ints, milli: Ints, sizes: Ints) -> None:
        """What is free on these cards now, whatever was known; a node is marked changed only where something is."""
        milli, sizes = milli - self.milli[rows], sizes - self.size[rows]
        moved = (milli != 0) | (sizes != 0)
        rows = rows[moved]
        if len(rows):  # one step, however many nodes: who looks at another instant changes a thousand at once
            self._change(_Step(np.unique(self.cards.node[rows]), rows, milli[moved], sizes[moved], 0, 0))

    def set_hosts(self, nodes: Ints, cpu_milli: Ints, host_bytes: Ints) -> None:
        """What is free of these nodes' processors and main memory now, as `set` does for cards."""
        none = np.zeros(0, dtype=np.int64)
        more = zip(nodes, cpu_milli - self.cpu_milli[nodes], host_bytes - self.host_bytes[nodes], strict=True)
        for node, cpu, host in more:
            if cpu or host:
                self._change(_Step(int(node), none, 0, 0, int(cpu), int(host)))

    def set_numa(self, more: Division) -> None:
        """So much more is free of these NUMA nodes, nothing of their hosts: those are told by `set_hosts`."""
        none, of = np.zeros(0, dtype=np.int64), self.numa.known.node[more.at]
        for node in np.unique(of):
            mine = Division(*(column[of == node] for column in more))
            self._change(_Step(int(node), none, 0, 0, 0, 0, numa=mine))

    # --- trials ---------------------------------------------------------------------------

    def mark(self) -> int:
        """Begin a trial; it ends with `rollback` or `keep` of this mark. Trials may lie inside each other."""
        self._marks.append(len(self._undo))
        return len(self._marks) - 1

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark, exactly, and end that trial and those inside it."""
        while len(self._undo) > self._marks[mark]:
            self._add(self._undo.pop(), -1)
        self.keep(mark)

    def keep(self, mark: int) -> None:
        """End that trial and those inside it, and leave what they did."""
        del self._marks[mark:]
        if not self._marks:
            self._undo.clear()

    # --- what caches read -----------------------------------------------------------------

    def next_look(self) -> int:
        """The number of a look that begins."""
        self._looks += 1
        return self._looks

    def now(self) -> Cursor:
        return Cursor(self._epoch, self._position)

    def changed(self, since: Cursor) -> Ints:
        """Nodes changed since then, each once; all of them when that was too long ago to be known."""
        if since.epoch != self._epoch:
            return self._all
        if since.position == self._position:
            return _NONE
        if self._last is not None and self._last[0] == since and self._last[1] == self._position:
            return self._last[2]
        nodes = np.array(list(dict.fromkeys(self._changes[since.position : self._position].tolist())), dtype=np.int64)
        self._last = since, self._position, nodes
        return nodes

    def listed(self, since: Cursor) -> Listed:
        """The same for who reads the list where it lies: some of them more than once."""
        if since.epoch != self._epoch:
            return Listed(self._all_at, len(self._all))
        return Listed(self._changes_at + 8 * since.position, self._position - since.position)

    def _change(self, step: _Step) -> None:
        if self._marks:
            self._undo.append(step)
        self._add(step, 1)

    def _add(self, step: _Step, sign: int) -> None:
        node, milli, sizes = step.node, step.milli, step.sizes
        if self._amounts is None or not (
            isinstance(node, int) and isinstance(milli, int) and isinstance(sizes, np.ndarray)
        ):
            self._add_columns(step, sign)
        else:
            self._amounts.add(sign, node, step.rows, milli, sizes, step.cpu_milli, step.host_bytes)
        for row, place, taken in step.recut:
            self.cuts[row] = self.cuts[row].plus(place) if taken == (sign > 0) else self.cuts[row].minus(place)
        if step.numa is not None:
            self.numa.add(step.numa if sign > 0 else -step.numa)
        self.moved += abs(milli) * len(step.rows) if isinstance(milli, int) else int(np.abs(milli).sum())
        self._list(node)

    def _add_columns(self, step: _Step, sign: int) -> None:
        rows = step.rows
        if len(rows):
            self.milli[rows] += sign * step.milli
            self.size[rows] += sign * step.sizes
            self._flat[self._slot[rows]] = np.where(self.open[rows], self.milli[rows], NO_CARD)
        if step.cpu_milli or step.host_bytes:
            self.cpu_milli[step.node] += sign * step.cpu_milli
            self.host_bytes[step.node] += sign * step.host_bytes

    def _list(self, node: int | Ints) -> None:
        count = len(node) if isinstance(node, np.ndarray) else 1
        if self._position + count > len(self._changes):
            self._forget()
        self._changes[self._position : self._position + count] = node
        self._position += count

    def _forget(self) -> None:
        """Every cache looks at everything once more; so the list stays short however long the pool lives."""
        self._position = 0
        self._last = None
        self._epoch += 1

    def _in_c(self, kernel: Kernel) -> Amounts:
        return Amounts(
            kernel,
            milli=self.milli,
            size=self.size,
            cpu=self.cpu_milli,
            host=self.host_bytes,
            grid=self.cells,
            slot=self._slot,
            open=self.open,
        )

    def _lay_out_grid(self) -> None:
        widths = np.diff(self._starts)
        places = np.arange(max(int(widths.max(initial=0)), 1))
        self._there = places[None, :] < widths[:, None]
        self._table = np.zeros(self._there.shape, dtype=np.int64)
        self._table[self._there] = self._by_node
        self._slot = np.empty(len(self.cards), dtype=np.int64)
        self._slot[self._by_node] = np.flatnonzero(self._there)
        self.cells = np.full(self._there.shape, NO_CARD, dtype=np.int64)
        self._flat = self.cells.reshape(-1)
        self._flat[self._slot] = np.where(self.open, self.milli, NO_CARD)
        self.places = Places(self.cells, self._table, widths)
        """For who reads them in place."""


def mixed_order(nodes: int) -> Ints:
    """An order of so many nodes that looks like chance and is always the same (splitmix64 of each one's number)."""
    mixed = (np.arange(nodes, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")


def _undone(step: _Step) -> _Step:
    recut = tuple((row, place, not taken) for row, place, taken in step.recut) if step.recut else ()
    numa = None if step.numa is None else -step.numa
    return _Step(step.node, step.rows, -step.milli, -step.sizes, -step.cpu_milli, -step.host_bytes, recut, numa)


def _recut(rows: Ints, places: tuple[Place, ...], *, taken: bool) -> tuple[Recut, ...]:
    return tuple((int(row), place, taken) for row, place in zip(rows, places, strict=True)) if places else ()


def _free_of_hosts(cards: Cards) -> tuple[Ints, Ints]:
    if cards.hosts is None:
        unlimited = np.full(len(cards.nodes), UNLIMITED, dtype=np.int64)
        return unlimited, unlimited.copy()
    return cards.hosts.free_cpu_milli.copy(), cards.hosts.free_memory_bytes.copy()


def _carrying(label: tuple[str, str], labels: tuple[Mapping[str, str], ...]) -> Bools:
    key, value = label
    return np.fromiter((has.get(key) == value for has in labels), dtype=np.bool_, count=len(labels))
