"""The structures of native/scheduler/scheduler.h, and the columns that they point to.

See docs/decisions/0006-compiled-kernel.md.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.snapshot.columns import Ints

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int8]

# Every integer is 64 bit and every column is passed by address, so the C structures have no padding
# before their last field and the same layout on every 64-bit machine.
INT = ctypes.c_int64
ADDRESS = ctypes.c_void_p


def _build_fields(
    ints: str = "", columns: str = "", codes: str = "", answers: str = ""
) -> tuple[tuple[str, Any], ...]:
    names = ((ints, INT), (columns, ADDRESS), (codes, ctypes.c_int8), (answers, ADDRESS))
    return tuple((name, kind) for words, kind in names for name in words.split())


class PoolStruct(ctypes.Structure):
    _fields_ = _build_fields("nodes width kinds", "grid rows cpu kind size memory")


class ClassesStruct(ctypes.Structure):
    _fields_ = _build_fields("size", "count milli cpu allowed need")


class ShapeStruct(ctypes.Structure):
    _fields_ = _build_fields("count milli cpu", "why need")


class RulesStruct(ctypes.Structure):
    _fields_ = _build_fields("number length quantum step fresh_card", "streams cuts weight")


class HostsStruct(ctypes.Structure):
    _fields_ = _build_fields("size lacks", "count cpu allowed price near_slot")


class AmountsStruct(ctypes.Structure):
    _fields_ = _build_fields("", "milli size cpu host grid slot open")


class RoomsStruct(ctypes.Structure):
    _fields_ = _build_fields(
        "width cards_in_all",
        "rows cards milli size memory cpu host count held asked_cpu asked_host need part group found "
        "whole open",
    )


class ScoresStruct(ctypes.Structure):
    _fields_ = _build_fields("nodes", "by_rank rank roomy highest")


class FitStruct(ctypes.Structure):
    _fields_ = (
        *_build_fields("width need_stride", "rows cards milli size memory need cpu host fixed"),
        *_build_fields(
            "count held asked_cpu asked_host",
            "",
            "whole not_whole compute no_memory no_cpu no_host",
        ),
        *_build_fields("", "why fitting roomy looked"),
    )


class CardGrid(NamedTuple):
    """The layout of cards: one line per node, one place per card in the order of the card index.

    `grid` is the free compute (below 0 where no open card is), `rows` the row of the card in the
    card columns, and `cards` the number of places per line that hold a card.
    """

    grid: Ints
    rows: Ints
    cards: Ints


def get_address(column: npt.NDArray[Any]) -> int:
    if not column.flags.c_contiguous:
        # A wrong stride would be a silent wrong decision, or a read beyond the array.
        raise ValueError("the kernel reads columns that lie in one piece")
    return int(column.ctypes.data)


class NativeStructs:
    """Structures and the columns that they point to, kept alive with this object."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def keep_column(self, column: npt.NDArray[Any]) -> int:
        self._kept.append(column)
        return get_address(column)

    def build_struct(
        self, kind: type[ctypes.Structure], /, **fields: int | npt.NDArray[Any] | None
    ) -> int:
        values = dict[str, int | None]()
        for name, value in fields.items():
            values[name] = self.keep_column(value) if isinstance(value, np.ndarray) else value
        made = kind(**values)
        self._kept.append(made)
        return ctypes.addressof(made)
