"""The calls of the native library for the two costly policies, FGD and Stream Fill.

It contains no rule of placement. See docs/decisions/0006-compiled-kernel.md.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.filtering.native_structs import (
    Bytes,
    CardGrid,
    ClassesStruct,
    Codes,
    HostsStruct,
    NativeStructs,
    PoolStruct,
    RulesStruct,
    ShapeStruct,
    get_address,
)
from gpupool.scheduling.snapshot.columns import Ints

#: Shapes whose gains the library keeps at the same time (kernel.h).
MAX_SLOTS = 1024


@dataclass(frozen=True)
class NativeColumns:
    """The free amounts, in place; `cpu` and `kind` are per node.

    Nodes of one kind admit the same classes. `size` and `memory` are bytes free and in all per
    card, or None if memory of cards is not considered.
    """

    grid: CardGrid
    cpu: Ints
    kind: Ints
    kinds: int
    size: Ints | None = None
    memory: Ints | None = None


@dataclass(frozen=True)
class NativeClasses:
    """The expected classes.

    `allowed` says per class and kind of node whether the class may go there. `need` is what a seat
    takes of a card's memory there in thousandths, or None if memory of cards is not considered.
    """

    count: Ints
    milli: Ints
    cpu: Ints
    allowed: Bytes
    need: Ints | None = None


class NativeShape:
    """A shape in the form of the library.

    Args:
        count: Cards.
        milli: Compute per card, in milli-devices.
        cpu: Amount of the host's resource.
        why: The codes of the shape's `ClaimFit`; the library reads them at every call.
        need: Memory of a seat on each kind of node, in thousandths.
    """

    def __init__(
        self, count: int, milli: int, cpu: int, why: Codes, need: Ints | None = None
    ) -> None:
        self.count = count
        self.milli = milli
        self.cpu = cpu
        # The structure holds addresses only; without a reference the columns would be freed under
        # it.
        self._kept = (why, need)
        self._shape = ShapeStruct(
            count, milli, cpu, get_address(why), None if need is None else get_address(need)
        )
        self.at = ctypes.addressof(self._shape)


@dataclass(frozen=True)
class NativeRules:
    """The rules of Stream Fill.

    `streams` has one line of class numbers per stream. If `weight` is given, a node is valued by
    what the classes could use of it next instead. `cuts` is the value of a part of a card per kind
    of node and milli-devices from 0 to 1000. `cuts`, `step` and `fresh_card` are multiplied by the
    scale.
    """

    streams: npt.NDArray[np.int16]
    quantum: int
    step: int
    fresh_card: int
    cuts: Ints
    weight: Ints | None = None

    @property
    def scale(self) -> int:
        """The factor of all values: a value is in milli-devices times this."""
        return len(self.streams) if self.weight is None else int(self.weight.sum())


@dataclass(frozen=True)
class NativeHostGroups:
    """Groups of hosts that can become scarce; Python changes `price` in place."""

    count: Ints
    cpu: Ints
    allowed: Bytes
    price: Ints
    near_slot: Ints


class _NativePolicy(NativeStructs):
    """What both policies share: the columns of the pool and buffers for answers."""

    def __init__(self, kernel: NativeLibrary, columns: NativeColumns, close: str) -> None:
        super().__init__()
        self._calls = kernel.calls
        self._close = getattr(kernel.calls, close)
        self._handle: int | None = None
        nodes, width = columns.grid.grid.shape
        self._scores = np.empty(nodes, dtype=np.int64)
        self._rows = np.empty(max(width, 1), dtype=np.int64)
        self._scores_at = self.keep_column(self._scores)
        self._rows_at = self.keep_column(self._rows)
        self._pool = self.build_struct(
            PoolStruct,
            nodes=nodes,
            width=width,
            kinds=columns.kinds,
            grid=columns.grid.grid,
            rows=columns.grid.rows,
            cpu=columns.cpu,
            kind=columns.kind,
            size=columns.size,
            memory=columns.memory,
        )

    def __del__(self) -> None:
        # The handle owns memory of the library that Python does not count.
        if self._handle:
            self._close(self._handle)
            self._handle = None

    def _require_handle(self, handle: int | None) -> int:
        if not handle:
            raise MemoryError("the compiled kernel has no memory, or a node has too many cards")
        return handle

    def _build_classes(self, classes: NativeClasses) -> int:
        return self.build_struct(ClassesStruct, size=len(classes.count), **vars(classes))


class NativeFgd(_NativePolicy):
    """FGD on these columns.

    Args:
        kernel: The library.
        columns: The free amounts.
        classes: The expected classes.
        weight: How often each class is expected.
        steps: The thresholds of the scores 1 to 99, see `scoring/fgd`.
    """

    def __init__(
        self,
        kernel: NativeLibrary,
        columns: NativeColumns,
        classes: NativeClasses,
        weight: Ints,
        steps: Ints,
    ) -> None:
        super().__init__(kernel, columns, "fgd_close")
        opened = self._calls.fgd_open(
            self._pool,
            self._build_classes(classes),
            self.keep_column(weight),
            self.keep_column(steps),
        )
        self._handle = self._require_handle(opened)

    def rate_nodes(self, asked: NativeShape, nodes: Ints) -> Ints:
        """Return a score per node."""
        self._calls.fgd_rate(self._handle, asked.at, nodes.ctypes.data, len(nodes), self._scores_at)
        # A copy: the buffer is written again by the next call.
        return self._scores[: len(nodes)].copy()

    def order_cards(self, asked: NativeShape, node: int) -> Ints:
        """Return the rows of the node's fitting cards, best first."""
        found = self._calls.fgd_choose(self._handle, asked.at, node, self._rows_at)
        return self._rows[:found].copy()

    def compute_fragment(self, node: int) -> int:
        """Return F of the node, times the sum of the weights."""
        return int(self._calls.fgd_fragment(self._handle, node))


class NativeStreamFill(_NativePolicy):
    """Stream Fill on these columns."""

    def __init__(
        self,
        kernel: NativeLibrary,
        columns: NativeColumns,
        classes: NativeClasses,
        rules: NativeRules,
        hosts: NativeHostGroups,
    ) -> None:
        super().__init__(kernel, columns, "stream_close")
        number, length = rules.streams.shape
        made = self.build_struct(RulesStruct, number=number, length=length, **vars(rules))
        groups, lacks = hosts.near_slot.shape
        dear = self.build_struct(HostsStruct, size=groups, lacks=lacks, **vars(hosts))
        opened = self._calls.stream_open(self._pool, self._build_classes(classes), made, dear)
        self._handle = self._require_handle(opened)

    def rate_nodes(self, asked: NativeShape, slot: int, toll: Ints, nodes: Ints) -> Ints:
        """Return a score per node.

        Args:
            asked: The shape.
            slot: Number of the shape's cache, below MAX_SLOTS.
            toll: What the shape pays on each kind of node.
            nodes: The nodes.
        """
        count = len(nodes)
        at = nodes.ctypes.data
        toll_at = toll.ctypes.data
        self._calls.stream_rate(self._handle, asked.at, slot, toll_at, at, count, self._scores_at)
        return self._scores[:count].copy()

    def update_scores(
        self,
        asked: NativeShape,
        slot: int,
        toll: Ints,
        scores: NativeScores,
        nodes: int,
        count: int,
    ) -> None:
        """Rate the nodes of a list as `rate_nodes` does, and write the scores.

        Args:
            asked: The shape.
            slot: Number of the shape's cache, below MAX_SLOTS.
            toll: What the shape pays on each kind of node.
            scores: Where the scores are written.
            nodes: Address of an array of node numbers; the nodes need not be roomy.
            count: Length of that array.
        """
        self._calls.stream_mend(
            self._handle, asked.at, slot, toll.ctypes.data, scores.at, nodes, count
        )

    def order_cards(self, asked: NativeShape, toll: Ints, node: int) -> Ints:
        """Return the rows of the node's fitting cards, best first."""
        found = self._calls.stream_choose(
            self._handle, asked.at, toll.ctypes.data, node, self._rows_at
        )
        return self._rows[:found].copy()

    def compute_value(self, node: int) -> int:
        """Return the value of the node, times the scale."""
        return int(self._calls.stream_value(self._handle, node))

    @property
    def computed_values(self) -> int:
        """How many values were computed and not found in the cache."""
        return int(self._calls.stream_computed(self._handle))
