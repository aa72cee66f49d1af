"""The number of nodes on which each of many shapes fits, updated on the nodes that changed.

A `ClaimFit` explains every card and needs memory per card. A queue may hold ten thousand shapes
that fit nowhere. Here each shape is a few numbers, and one changed node is checked for all shapes
at once. The count ignores partitions and topology: a shape with count 0 fits nowhere, a shape with
a count above 0 still needs its `ClaimFit`. See docs/decisions/0030-the-whole-cycle.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import FITS, judge_kind
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_abi import NativeNodeCounts
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: Shapes for which there is room at first.
_AT_FIRST = 64
#: Fields of `struct kernel_rooms` with one number per shape.
_COLUMNS = ("count", "held", "asked_cpu", "asked_host", "need", "part", "group", "found")
#: Memory shares are rounded down to MiB, as `Shape.memory_on` does it.
_MIB_BITS = 20
#: Claims for one node: more than any plan places.
_MANY = 1 << 40


class RoomyNodeCounts:
    """Counts by shape number; `register_shape` gives the number, `count_nodes` the counts."""

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free
        self._numbers: dict[Shape, int] = {}
        self._groups: dict[Hashable, int] = {}
        self._open = np.zeros((0, len(free.cards)), dtype=np.uint8)
        self._columns = {name: np.zeros(_AT_FIRST, dtype=np.int64) for name in _COLUMNS}
        self._whole = np.zeros(_AT_FIRST, dtype=np.uint8)
        self._seen = {"milli": free.milli.copy(), "size": free.size.copy()}
        self._seen |= {"cpu": free.cpu_milli.copy(), "host": free.host_bytes.copy()}
        self._sizes = np.unique(free.cards.memory_bytes)
        self._read = free.get_cursor()
        self._counted = 0
        self._compiled: NativeNodeCounts | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def register_shape(self, shape: Shape) -> int | None:
        """Return the number of a shape; None for partitions and MPS, which are not counted here."""
        if shape.profile is not None or shape.owner:
            return None
        found = self._numbers.get(shape)
        if found is None:
            found = self._numbers[shape] = len(self._numbers)
            self._store_shape(found, shape)
        return found

    def get_shape_group(self, shape: Shape) -> Hashable:
        """Return a key that is equal for shapes that could use the same cards if those were empty."""
        need = 0 if shape.memory_bytes is None else shape.memory_bytes
        return _build_selection_key(shape), int(np.searchsorted(self._sizes, need))

    def count_nodes(self) -> Ints:
        """Return by shape number on how many nodes the shape fits. Read only."""
        nodes = self._find_differing_nodes(self._free.list_changed_nodes(self._read))
        free = self._free
        found = self._columns["found"]
        if len(nodes) and self._counted:
            # Counted off with the amounts as they were, then on again with those that are: no shape
            # needs to remember on which nodes it fits.
            self._add_nodes(0, self._counted, nodes, -1)
        if len(nodes):
            self._copy_amounts(nodes)
            self._add_nodes(0, self._counted, nodes, 1)
        self._read = free.get_cursor()
        if self._counted < len(self):
            self._add_nodes(
                self._counted, len(self) - self._counted, np.arange(len(free.cards.nodes)), 1
            )
            self._counted = len(self)
        return found[: len(self)]

    def estimate_most_claims(self) -> Ints:
        """Return by shape number an upper bound of claims that fit at the same time.

        Call `count_nodes` first.
        """
        free = self._free
        shapes = len(self)
        columns = {name: column[:shapes] for name, column in self._columns.items()}
        milli = free.milli[free.open]
        untouched = int(((milli >= WHOLE) & (free.size >= free.untouched_bytes)[free.open]).sum())
        each = columns["held"] * columns["count"]
        # An upper bound that ignores fragments: a gang for which it is too small need not be tried.
        by_compute = np.maximum(milli, 0).sum() // np.maximum(each, 1)
        by_cards = np.where(
            self._whole[:shapes] == 1, untouched // np.maximum(columns["count"], 1), by_compute
        )
        found: Ints = np.where(
            (columns["found"] == 0) | (each == 0), columns["found"] * _MANY, by_cards
        )
        return found

    # --- parts ------------------------------------------------------------------------------

    def _store_shape(self, at: int, shape: Shape) -> None:
        if at == len(self._whole):
            # Doubled: adding n shapes copies each column log(n) times.
            for name, column in self._columns.items():
                self._columns[name] = np.append(column, np.zeros_like(column))
            self._whole = np.append(self._whole, np.zeros_like(self._whole))
            self._compiled = None
        part = shape.gpu_milli if shape.memory_milli is None else shape.memory_milli
        values = (
            shape.count,
            shape.held_milli,
            shape.cpu_milli,
            shape.host_bytes,
            -1 if shape.memory_bytes is None else shape.memory_bytes,
            part,
            self._find_group(shape),
            0,
        )
        for name, value in zip(_COLUMNS, values, strict=True):
            self._columns[name][at] = value
        self._whole[at] = shape.is_whole

    def _find_group(self, shape: Shape) -> int:
        key = _build_selection_key(shape)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = len(self._groups)
            usable = self._free.open & (judge_kind(shape, self._free) == FITS)
            self._open = np.vstack((self._open, usable.astype(np.uint8)))
            self._compiled = None
        return found

    def _find_differing_nodes(self, nodes: Ints) -> Ints:
        """Return the nodes whose amounts differ from those that were counted.

        A trial that was rolled back lists a node whose amounts are the same again.
        """
        free = self._free
        seen = self._seen
        rows, there = free.get_row_table(nodes)
        other = ((seen["milli"] != free.milli) | (seen["size"] != free.size))[rows] & there
        host = (seen["cpu"][nodes] != free.cpu_milli[nodes]) | (
            seen["host"][nodes] != free.host_bytes[nodes]
        )
        differing: Ints = nodes[other.any(axis=1) | host]
        return differing

    def _copy_amounts(self, nodes: Ints) -> None:
        free = self._free
        seen = self._seen
        rows, there = free.get_row_table(nodes)
        rows = rows[there]
        seen["milli"][rows] = free.milli[rows]
        seen["size"][rows] = free.size[rows]
        seen["cpu"][nodes] = free.cpu_milli[nodes]
        seen["host"][nodes] = free.host_bytes[nodes]

    def _add_nodes(self, first: int, shapes: int, nodes: Ints, sign: int) -> None:
        if self._free.kernel is None:
            for node in nodes.tolist():
                self._columns["found"][first : first + shapes] += sign * self._find_taken_shapes(
                    first, shapes, node
                )
            return
        if self._compiled is None:
            # Of a proportional claim the need is a little low then: an upper bound all the same.
            memory = self._free.untouched_bytes
            columns: dict[str, npt.NDArray[Any]] = {
                **self._columns,
                **self._seen,
                "memory": memory,
                "whole": self._whole,
                "open": self._open,
            }
            self._compiled = NativeNodeCounts(self._free.kernel, self._free.places, **columns)
        self._compiled.add_nodes(first, shapes, nodes, sign)

    def _find_taken_shapes(self, first: int, shapes: int, node: int) -> Bools:
        """Return which shapes fit on the node: `rooms_count` of the native library in NumPy."""
        some = slice(first, first + shapes)
        rows = self._free.get_node_rows(node)
        column = {name: values[some, None] for name, values in self._columns.items()}
        milli = self._seen["milli"][rows]
        size = self._seen["size"][rows]
        memory = self._free.untouched_bytes[rows]
        need = np.where(
            column["need"] >= 0,
            column["need"],
            memory * column["part"] // WHOLE >> _MIB_BITS << _MIB_BITS,
        )
        fits = (self._open[self._columns["group"][some]][:, rows] == 1) & (size >= need)
        fits &= (column["held"] == 0) | (milli >= column["held"])
        fits &= (self._whole[some, None] == 0) | ((milli >= WHOLE) & (size >= memory))
        takes: Bools = fits.sum(axis=1) >= self._columns["count"][some]
        takes &= self._columns["asked_cpu"][some] <= self._seen["cpu"][node]
        takes &= self._columns["asked_host"][some] <= self._seen["host"][node]
        return takes


def _build_selection_key(shape: Shape) -> Hashable:
    return shape.model, shape.labels, shape.selector, shape.count > 0
