"""The working copy of free capacity, per card and per host, for the lifetime of a pool.

This is the only mutable state of the scheduler. It holds numbers and no rules: `feasibility`
decides whether a claim may take something. Every change is written into the same arrays, so views
of them stay valid. Every change also appends its node to a list, from which each cache reads the
nodes that changed since its last read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.capacity_change import (
    CapacityChange,
    SlotChange,
    build_slot_changes,
    invert_change,
)
from gpupool.scheduling.filtering.card_owners import CardOwners
from gpupool.scheduling.filtering.changed_nodes import ChangedNodeList
from gpupool.scheduling.filtering.native_abi import NativeAmounts
from gpupool.scheduling.filtering.native_library import NativeLibrary, find_native_library
from gpupool.scheduling.filtering.native_structs import CardGrid
from gpupool.scheduling.filtering.node_order import build_mixed_order
from gpupool.scheduling.filtering.numa_capacity import NumaCapacity, NumaDivision
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: What is free of processors and main memory where nothing is known of them.
UNLIMITED = 1 << 62

#: In `FreeCapacity.cells`: no open card is there. A card of which more is promised than it has is
#: open and has less than 0 free: a claim was put on it before those that give way to it have left.
NO_CARD = -(1 << 62)


class FreeCapacity(ChangedNodeList):
    """Free compute and memory per card (`milli`, `size`), processors and main memory per node.

    `numa` has the free amounts per NUMA node, where they are known. It follows the seats that are
    taken and released with a `NumaDivision`.

    `rank` is a permutation of the nodes that breaks ties: the lowest rank wins. By default it is
    pseudo-random, because neighbours in a list are often one kind of machine. A node that is
    appended does not change the order of the others.

    Args:
        cards: The cards of the snapshot.
        order: Nodes, best first; replaces the pseudo-random order.
        compiled: True requires the native library, False uses NumPy, None uses the library if
            present.
    """

    def __init__(
        self, cards: CardTable, order: Ints | None = None, compiled: bool | None = None
    ) -> None:
        super().__init__(len(cards.nodes))
        self.cards = cards
        #: Contiguous, as the native library reads it.
        self.untouched_bytes = np.ascontiguousarray(cards.untouched_bytes)
        self.kernel = find_native_library(cards, compiled)
        # Copies: the snapshot's columns belong to the host, and other snapshots share them.
        self.milli = cards.free_milli.copy()
        self.size = cards.free_bytes.copy()
        self.cpu_milli, self.host_bytes = _copy_free_of_hosts(cards)
        self.numa = NumaCapacity(cards)
        #: To shares and whole claims; what is in partition mode is for partitions alone.
        self.open = cards.status == CARD_STATUS.index(CardStatus.OPEN)
        self.open[np.fromiter(cards.layouts, dtype=np.int64)] = False
        #: By row, the cards in partition mode; slots that are held for a job may overlap others.
        self.layouts = dict(cards.layouts)
        self.owners = CardOwners(cards)
        self.order = build_mixed_order(len(cards.nodes)) if order is None else order
        self.rank = np.argsort(self.order)
        self.examined_cards = 0
        #: By node, the last look of the kernel; looks are numbered.
        self.last_look = np.zeros(len(cards.nodes), dtype=np.int64)
        self._looks = 0
        #: Compute that was taken and given back so far, added up, in milli-devices.
        self.moved_milli = 0
        self._by_node = np.argsort(cards.node, kind="stable")
        self._starts = np.searchsorted(cards.node[self._by_node], np.arange(len(cards.nodes) + 1))
        self._build_grid()
        self._amounts = None if self.kernel is None else self._build_native_amounts(self.kernel)
        self._undo_log: list[CapacityChange] = []
        self._trials: list[int] = []
        self._labelled: dict[tuple[str, str], Bools] = {}

    # --- who is where ---------------------------------------------------------------------

    def get_node_rows(self, node: int) -> Ints:
        """Return the rows of a node's cards, ordered by card index."""
        return self._by_node[self._starts[node] : self._starts[node + 1]]

    def get_row_table(self, nodes: Ints) -> tuple[Ints, Bools]:
        """Return the rows of the nodes' cards as a table.

        Returns:
            One line of rows per node, and a mask of the places in each line that hold a card.
        """
        return self._table[nodes], self._there[nodes]

    def get_compute_grid(self, nodes: Ints) -> Ints:
        """Return free compute per node and card index, NO_CARD where no open card is.

        `cells` is the table of all nodes; it is changed in place.
        """
        return self.cells[nodes]

    def count_cards_by_node(self, chosen: Bools) -> Ints:
        """Return how many of each node's cards the mask selects."""
        return np.bincount(self.cards.node[chosen], minlength=len(self.cards.nodes))

    def find_highest_by_node(self, column: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """Return the highest value of a column among each node's cards, 0 for a node without cards."""
        highest = np.zeros(len(self.cards.nodes), dtype=np.int8)
        some = self._starts[1:] > self._starts[:-1]
        if some.any():
            highest[some] = np.maximum.reduceat(column[self._by_node], self._starts[:-1][some])
        return highest

    def is_untouched(self, rows: Ints | slice = slice(None)) -> Bools:
        """Return a mask of the open cards of which neither compute nor memory is in use."""
        whole: Bools = (self.milli[rows] >= WHOLE) & (self.size[rows] >= self.untouched_bytes[rows])
        whole &= self.open[rows]
        return whole

    def has_label(self, label: tuple[str, str]) -> Bools:
        """Return a mask of the nodes that carry the label. The mask is computed once per label."""
        if label not in self._labelled:
            self._labelled[label] = _find_labelled_nodes(label, self.cards.node_labels)
        return self._labelled[label]

    # --- what happened --------------------------------------------------------------------

    def take_seats(
        self,
        node: int,
        rows: Ints,
        milli: int,
        sizes: Ints,
        cpu_milli: int = 0,
        host_bytes: int = 0,
        places: tuple[PartitionSlot, ...] = (),
        numa: NumaDivision | None = None,
        owner: str = "",
    ) -> None:
        """Subtract one claim's amounts from what is free.

        Args:
            node: The node of the claim.
            rows: Its cards, each once.
            milli: Compute per card, in milli-devices.
            sizes: Memory bytes per card.
            cpu_milli: Processors, in thousandths.
            host_bytes: Main memory.
            places: For partitions, the slot on each card.
            numa: How the processors and main memory are divided over NUMA nodes.
            owner: Of a claim for MPS.
        """
        recut = build_slot_changes(rows, places, taken=False)
        step = invert_change(
            CapacityChange(node, rows, milli, sizes, cpu_milli, host_bytes, recut, numa)
        )
        if owner or self.owners.is_used:
            changes = self.owners.list_changes(owner, rows, self.milli[rows], self.size[rows])
            step = step._replace(owners=changes)
        self._apply(step)

    def release_seats(
        self,
        node: int,
        rows: Ints,
        milli: int,
        sizes: Ints,
        cpu_milli: int = 0,
        host_bytes: int = 0,
        places: tuple[PartitionSlot, ...] = (),
        numa: NumaDivision | None = None,
    ) -> None:
        """Add back what `take_seats` subtracted; takes the same arguments."""
        recut = build_slot_changes(rows, places, taken=False)
        self._apply(CapacityChange(node, rows, milli, sizes, cpu_milli, host_bytes, recut, numa))

    def change_slots(self, changes: Iterable[SlotChange]) -> None:
        """Mark partition slots as taken or free without changing amounts."""
        none = np.zeros(0, dtype=np.int64)
        for one in changes:
            self._apply(CapacityChange(int(self.cards.node[one[0]]), none, 0, 0, 0, 0, (one,)))

    def set_owners(self, owners: Mapping[int, str]) -> None:
        """Set the owner of each card that has one, and of no other card."""
        none = np.zeros(0, dtype=np.int64)
        for one in self.owners.list_differences(owners):
            node = int(self.cards.node[one[0]])
            self._apply(CapacityChange(node, none, 0, 0, 0, 0, owners=(one,)))

    def set_cards(self, rows: Ints, milli: Ints, sizes: Ints) -> None:
        """Set what is free on these cards.

        A node is recorded as changed only if an amount differs.
        """
        milli, sizes = milli - self.milli[rows], sizes - self.size[rows]
        moved = (milli != 0) | (sizes != 0)
        rows = rows[moved]
        # One step, however many nodes: a look at another instant changes a thousand at once.
        if len(rows):
            self._apply(
                CapacityChange(
                    np.unique(self.cards.node[rows]), rows, milli[moved], sizes[moved], 0, 0
                )
            )

    def set_hosts(self, nodes: Ints, cpu_milli: Ints, host_bytes: Ints) -> None:
        """Set the free processors and main memory of these nodes, as `set_cards` does for cards."""
        none = np.zeros(0, dtype=np.int64)
        more = zip(
            nodes,
            cpu_milli - self.cpu_milli[nodes],
            host_bytes - self.host_bytes[nodes],
            strict=True,
        )
        for node, cpu, host in more:
            if cpu or host:
                self._apply(CapacityChange(int(node), none, 0, 0, int(cpu), int(host)))

    def add_numa(self, more: NumaDivision) -> None:
        """Add amounts to NUMA nodes without changing their hosts, which `set_hosts` changes."""
        none = np.zeros(0, dtype=np.int64)
        of = self.numa.known.node[more.at]
        for node in np.unique(of):
            here = of == node
            mine = NumaDivision(more.at[here], more.cpu_milli[here], more.host_bytes[here])
            self._apply(CapacityChange(int(node), none, 0, 0, 0, 0, numa=mine))

    # --- trials ---------------------------------------------------------------------------

    def begin_trial(self) -> int:
        """Begin a trial and return its number.

        The trial ends with `rollback_trial` or `commit_trial`. Trials can be nested.
        """
        self._trials.append(len(self._undo_log))
        return len(self._trials) - 1

    def rollback_trial(self, mark: int) -> None:
        """Undo every change of the trial exactly, and end it and the trials inside it."""
        # Newest first. Amounts are integers, so every column returns bit for bit.
        while len(self._undo_log) > self._trials[mark]:
            self._add_change(self._undo_log.pop(), -1)
        self.commit_trial(mark)

    def commit_trial(self, mark: int) -> None:
        """End the trial and those inside it, and keep their changes."""
        del self._trials[mark:]
        # Only now: an outer trial may still undo what an inner one kept.
        if not self._trials:
            self._undo_log.clear()

    def get_next_look(self) -> int:
        """Return the number of the next look of the native library at the nodes."""
        self._looks += 1
        return self._looks

    def _apply(self, step: CapacityChange) -> None:
        if self._trials:
            self._undo_log.append(step)
        self._add_change(step, 1)

    def _add_change(self, step: CapacityChange, sign: int) -> None:
        node = step.node
        milli = step.milli
        sizes = step.sizes
        if self._amounts is None or not (
            isinstance(node, int) and isinstance(milli, int) and isinstance(sizes, np.ndarray)
        ):
            self._add_columns(step, sign)
        else:
            self._amounts.add_amounts(
                sign, node, step.rows, milli, sizes, step.cpu_milli, step.host_bytes
            )
        for row, place, taken in step.slots:
            self.layouts[row] = (
                self.layouts[row].with_slot(place)
                if taken == (sign > 0)
                else self.layouts[row].without_slot(place)
            )
        for row, before, after in step.owners:
            self.owners.set_number(row, after if sign > 0 else before)
        if step.numa is not None:
            self.numa.add_amounts(step.numa if sign > 0 else -step.numa)
        self.moved_milli += (
            abs(milli) * len(step.rows) if isinstance(milli, int) else int(np.abs(milli).sum())
        )
        self._append_changed_nodes(node)

    def _add_columns(self, step: CapacityChange, sign: int) -> None:
        rows = step.rows
        if len(rows):
            self.milli[rows] += sign * step.milli
            self.size[rows] += sign * step.sizes
            self._flat[self._slot[rows]] = np.where(self.open[rows], self.milli[rows], NO_CARD)
        if step.cpu_milli or step.host_bytes:
            self.cpu_milli[step.node] += sign * step.cpu_milli
            self.host_bytes[step.node] += sign * step.host_bytes

    def _build_native_amounts(self, kernel: NativeLibrary) -> NativeAmounts:
        return NativeAmounts(
            kernel,
            milli=self.milli,
            size=self.size,
            cpu=self.cpu_milli,
            host=self.host_bytes,
            grid=self.cells,
            slot=self._slot,
            open=self.open,
        )

    def _build_grid(self) -> None:
        widths = np.diff(self._starts)
        card_grid = np.arange(max(int(widths.max(initial=0)), 1))
        self._there = card_grid[None, :] < widths[:, None]
        self._table = np.zeros(self._there.shape, dtype=np.int64)
        self._table[self._there] = self._by_node
        self._slot = np.empty(len(self.cards), dtype=np.int64)
        self._slot[self._by_node] = np.flatnonzero(self._there)
        self.cells = np.full(self._there.shape, NO_CARD, dtype=np.int64)
        self._flat = self.cells.reshape(-1)
        # `cells` repeats `milli` by node and place, so that the library scans one line per node
        # without an index. `_add_columns` and `amounts_add` write both.
        self._flat[self._slot] = np.where(self.open, self.milli, NO_CARD)
        #: The layout for the native library, which reads it in place.
        self.places = CardGrid(self.cells, self._table, widths)


def _copy_free_of_hosts(cards: CardTable) -> tuple[Ints, Ints]:
    if cards.hosts is None:
        unlimited = np.full(len(cards.nodes), UNLIMITED, dtype=np.int64)
        return unlimited, unlimited.copy()
    return cards.hosts.free_cpu_milli.copy(), cards.hosts.free_memory_bytes.copy()


def _find_labelled_nodes(label: tuple[str, str], labels: tuple[Mapping[str, str], ...]) -> Bools:
    key, value = label
    return np.fromiter((has.get(key) == value for has in labels), dtype=np.bool_, count=len(labels))
