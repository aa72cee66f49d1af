"""On how many nodes each of many shapes has room, counted anew on the nodes that changed.

A shape's `Fit` says where it can go and why not elsewhere, and holds a line for each card. A queue may have ten
thousand shapes of which nothing finds room: here each is a few numbers, and a change of one node is looked at for all
of them at once. It counts cards as the filter does, but knows no partitions and nothing of what has to be near
together: a shape without room here has none, one with room here is judged by its `Fit`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import FITS, of_kind
from gpupool.scheduling.free import Free
from gpupool.scheduling.kernel_calls import RoomCount
from gpupool.scheduling.snapshot import Bools, Ints

_AT_FIRST = 64
_COLUMNS = ("count", "held", "asked_cpu", "asked_host", "need", "part", "group", "found")
_MIB_BITS = 20
_MANY = 1 << 40
"""Claims for one node: more than anybody counts."""


class Rooms:
    """`number` gives a shape its place, `found` says of each place on how many nodes there is room now."""

    def __init__(self, free: Free) -> None:
        self._free = free
        self._numbers: dict[Shape, int] = {}
        self._groups: dict[Hashable, int] = {}
        self._open = np.zeros((0, len(free.cards)), dtype=np.uint8)
        self._columns = {name: np.zeros(_AT_FIRST, dtype=np.int64) for name in _COLUMNS}
        self._whole = np.zeros(_AT_FIRST, dtype=np.uint8)
        self._seen = {"milli": free.milli.copy(), "size": free.size.copy()}
        self._seen |= {"cpu": free.cpu_milli.copy(), "host": free.host_bytes.copy()}
        self._sizes = np.unique(free.cards.memory_bytes)
        self._read = free.now()
        self._counted = 0
        self._compiled: RoomCount | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, shape: Shape) -> int | None:
        """The shape's place; None for partitions, of which nothing is counted here."""
        if shape.profile is not None:
            return None
        found = self._numbers.get(shape)
        if found is None:
            found = self._numbers[shape] = len(self._numbers)
            self._put(found, shape)
        return found

    def kind(self, shape: Shape) -> Hashable:
        """Equal for shapes that could use the same cards if these were open and empty."""
        need = 0 if shape.memory_bytes is None else shape.memory_bytes
        return _selecting(shape), int(np.searchsorted(self._sizes, need))

    def found(self) -> Ints:
        """By place; to be read only."""
        nodes, free, found = self._differing(self._free.changed(self._read)), self._free, self._columns["found"]
        if len(nodes) and self._counted:
            self._add(0, self._counted, nodes, -1)
        if len(nodes):
            self._see(nodes)
            self._add(0, self._counted, nodes, 1)
        self._read = free.now()
        if self._counted < len(self):
            self._add(self._counted, len(self) - self._counted, np.arange(len(free.cards.nodes)), 1)
            self._counted = len(self)
        return found[: len(self)]

    def most(self) -> Ints:
        """By place, so many claims have room at the same time at most; `found` is to be read first."""
        free, shapes = self._free, len(self)
        columns = {name: column[:shapes] for name, column in self._columns.items()}
        milli = free.milli[free.open]
        untouched = int(((milli >= WHOLE) & (free.size >= free.cards.memory_bytes)[free.open]).sum())
        each = columns["held"] * columns["count"]
        by_compute = np.maximum(milli, 0).sum() // np.maximum(each, 1)
        by_cards = np.where(self._whole[:shapes] == 1, untouched // np.maximum(columns["count"], 1), by_compute)
        found: Ints = np.where((columns["found"] == 0) | (each == 0), columns["found"] * _MANY, by_cards)
        return found

    # --- parts ------------------------------------------------------------------------------

    def _put(self, at: int, shape: Shape) -> None:
        if at == len(self._whole):
            self._columns = {name: np.append(column, np.zeros_like(column)) for name, column in self._columns.items()}
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
            self._group(shape),
            0,
        )
        for name, value in zip(_COLUMNS, values, strict=True):
            self._columns[name][at] = value
        self._whole[at] = shape.whole

    def _group(self, shape: Shape) -> int:
        key = _selecting(shape)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = len(self._groups)
            usable = self._free.open & (of_kind(shape, self._free) == FITS)
            self._open = np.vstack((self._open, usable.astype(np.uint8)))
            self._compiled = None
        return found

    def _differing(self, nodes: Ints) -> Ints:
        """Of these nodes, those that are otherwise than when they were counted: what is tried is taken back again."""
        free, seen = self._free, self._seen
        rows, there = free.seats(nodes)
        other = ((seen["milli"] != free.milli) | (seen["size"] != free.size))[rows] & there
        host = (seen["cpu"][nodes] != free.cpu_milli[nodes]) | (seen["host"][nodes] != free.host_bytes[nodes])
        differing: Ints = nodes[other.any(axis=1) | host]
        return differing

    def _see(self, nodes: Ints) -> None:
        free, seen = self._free, self._seen
        rows, there = free.seats(nodes)
        rows = rows[there]
        seen["milli"][rows], seen["size"][rows] = free.milli[rows], free.size[rows]
        seen["cpu"][nodes], seen["host"][nodes] = free.cpu_milli[nodes], free.host_bytes[nodes]

    def _add(self, first: int, shapes: int, nodes: Ints, sign: int) -> None:
        if self._free.kernel is None:
            for node in nodes.tolist():
                self._columns["found"][first : first + shapes] += sign * self._takes(first, shapes, node)
            return
        if self._compiled is None:
            memory = np.ascontiguousarray(self._free.cards.memory_bytes)
            columns: dict[str, npt.NDArray[Any]] = {
                **self._columns,
                **self._seen,
                "memory": memory,
                "whole": self._whole,
                "open": self._open,
            }
            self._compiled = RoomCount(self._free.kernel, self._free.places, **columns)
        self._compiled.add(first, shapes, nodes, sign)

    def _takes(self, first: int, shapes: int, node: int) -> Bools:
        """Which of so many shapes the node takes: `rooms_count` in NumPy."""
        some, rows = slice(first, first + shapes), self._free.of_node(node)
        column = {name: values[some, None] for name, values in self._columns.items()}
        milli, size, memory = self._seen["milli"][rows], self._seen["size"][rows], self._free.cards.memory_bytes[rows]
        need = np.where(column["need"] >= 0, column["need"], memory * column["part"] // WHOLE >> _MIB_BITS << _MIB_BITS)
        fits = (self._open[self._columns["group"][some]][:, rows] == 1) & (size >= need)
        fits &= (column["held"] == 0) | (milli >= column["held"])
        fits &= (self._whole[some, None] == 0) | ((milli >= WHOLE) & (size >= memory))
        takes: Bools = fits.sum(axis=1) >= self._columns["count"][some]
        takes &= self._columns["asked_cpu"][some] <= self._seen["cpu"][node]
        takes &= self._columns["asked_host"][some] <= self._seen["host"][node]
        return takes


def _selecting(shape: Shape) -> Hashable:
    return shape.model, shape.labels, shape.selector, shape.count > 0
