"""The structures and calls of the native scheduler library.

The library computes the same answers as NumPy over the same columns. It reads the columns of
`FreeCapacity` in place and writes only its answers, except `NativeAmounts`, which updates the free
amounts. The structures are those of native/scheduler/scheduler.h. This module contains no rule of
placement. See docs/decisions/0006-compiled-kernel.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.filtering.native_library import MAX_CARDS, NativeLibrary
from gpupool.scheduling.filtering.native_structs import (
    AmountsStruct,
    CardGrid,
    FitStruct,
    NativeStructs,
    RoomsStruct,
)
from gpupool.scheduling.snapshot.columns import Ints


class NativeAmounts(NativeStructs):
    """The columns of free amounts, changed in place: the fields of `struct kernel_amounts`."""

    def __init__(self, kernel: NativeLibrary, **columns: npt.NDArray[Any]) -> None:
        super().__init__()
        self._call = kernel.calls.amounts_add
        self._amounts = self.build_struct(AmountsStruct, **columns)
        # Buffers that live as long as the structure: building a ctypes pointer for each call costs
        # more than the call. MAX_CARDS bounds a node, and a claim takes cards of one node.
        self._rows = np.empty(MAX_CARDS, dtype=np.int64)
        self._sizes = np.empty(MAX_CARDS, dtype=np.int64)
        self._rows_at = self.keep_column(self._rows)
        self._sizes_at = self.keep_column(self._sizes)

    def add_amounts(
        self, sign: int, node: int, rows: Ints, milli: int, sizes: Ints, cpu: int, host: int
    ) -> None:
        """Add amounts to each of these cards and to the node.

        Args:
            sign: 1 or -1.
            node: The node.
            rows: The cards, each once.
            milli: Compute per card.
            sizes: Memory bytes per card.
            cpu: Processors, in thousandths.
            host: Main memory, in bytes.
        """
        count = len(rows)
        self._rows[:count] = rows
        self._sizes[:count] = sizes
        self._call(
            self._amounts, sign, node, self._rows_at, count, milli, self._sizes_at, cpu, host
        )


class NativeNodeCounts(NativeStructs):
    """Counts of nodes per shape; the fields are those of `struct kernel_rooms`."""

    def __init__(self, kernel: NativeLibrary, places: CardGrid, **fields: npt.NDArray[Any]) -> None:
        super().__init__()
        self._call = kernel.calls.rooms_count
        width = places.rows.shape[1]
        cards = len(fields["milli"])
        self._rooms = self.build_struct(
            RoomsStruct,
            width=width,
            cards_in_all=cards,
            rows=places.rows,
            cards=places.cards,
            **fields,
        )

    def add_nodes(self, first: int, shapes: int, nodes: Ints, sign: int) -> None:
        """Add `sign` to the count of each shape for each of these nodes on which it fits."""
        self._call(self._rooms, first, shapes, nodes.ctypes.data, len(nodes), sign)


class NativeFit(NativeStructs):
    """The filter for one shape: writes `why`, `fitting` and `roomy` of the given nodes.

    `need` may be a broadcast view of one number. The fields are those of `struct kernel_fit`.
    """

    def __init__(
        self, kernel: NativeLibrary, places: CardGrid, need: Ints, **fields: int | npt.NDArray[Any]
    ) -> None:
        super().__init__()
        self._look = kernel.calls.fit_look
        # A broadcast view has one number in memory; the library then reads it with stride 0.
        one = need.strides == (0,)
        fields |= {"need_stride": int(not one), "need": need[:1].copy() if one else need}
        # Hosts may hand in a view of a wider table; the library knows no strides of this column.
        fields["memory"] = np.ascontiguousarray(fields["memory"], dtype=np.int64)
        width = places.rows.shape[1]
        self._fit = self.build_struct(
            FitStruct, width=width, rows=places.rows, cards=places.cards, **fields
        )

    def __call__(self, nodes: int, count: int, call: int) -> int:
        """Check nodes and return how many cards were checked.

        Args:
            nodes: Address of an array of node numbers.
            count: Length of that array.
            call: A number that is unique to this call.
        """
        found: int = self._look(self._fit, nodes, count, call)
        return found
