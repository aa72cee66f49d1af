"""The only door to the compiled kernel: the two costly placement policies over the same columns, the same answers.

Whoever starts a scheduler says where the library lies (`load`); without it the policies run in NumPy and decide the
same, only later. The library reads the columns of `Free` where they are and writes nothing but its answers. This
module knows its functions and structures (native/kernel/kernel.h), no rule of placement.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.snapshot import Ints

ABI = 1
MAX_CARDS = 64
"""On one node; a pool with a wider node is rated in NumPy."""
MAX_SLOTS = 1024

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int8]

_INT, _AT = ctypes.c_int64, ctypes.c_void_p


class _Pool(ctypes.Structure):
    _fields_ = (
        *((name, _INT) for name in ("nodes", "width", "kinds")),
        *((name, _AT) for name in ("grid", "rows", "cpu", "kind")),
    )


class _Classes(ctypes.Structure):
    _fields_ = (("size", _INT), *((name, _AT) for name in ("count", "milli", "cpu", "allowed")))


class _Shape(ctypes.Structure):
    _fields_ = (*((name, _INT) for name in ("count", "milli", "cpu")), ("why", _AT))


class _Rules(ctypes.Structure):
    _fields_ = (
        *((name, _INT) for name in ("number", "length", "quantum", "step", "fresh_card")),
        ("streams", _AT),
    )


class _Hosts(ctypes.Structure):
    _fields_ = (("size", _INT), *((name, _AT) for name in ("count", "cpu", "allowed", "price")))


_FUNCTIONS: Sequence[tuple[str, Any, tuple[Any, ...]]] = (
    ("fgd_open", _AT, (_AT, _AT, _AT, _AT)),
    ("fgd_close", None, (_AT,)),
    ("fgd_rate", None, (_AT, _AT, _AT, _INT, _AT)),
    ("fgd_choose", _INT, (_AT, _AT, _INT, _AT)),
    ("fgd_fragment", _INT, (_AT, _INT)),
    ("stream_open", _AT, (_AT, _AT, _AT, _AT)),
    ("stream_close", None, (_AT,)),
    ("stream_rate", None, (_AT, _AT, _INT, _AT, _AT, _INT, _AT)),
    ("stream_choose", _INT, (_AT, _AT, _AT, _INT, _AT)),
    ("stream_value", _INT, (_AT, _INT)),
    ("stream_computed", _INT, (_AT,)),
)


class Kernel:
    """The loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, result, arguments in _FUNCTIONS:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self.calls = library


def load(path: Path | None) -> Kernel | None:
    """The library at that path; None when none is there, or one that does not belong to this version."""
    if path is None or not path.is_file():
        return None
    try:
        library = ctypes.CDLL(str(path))
        return Kernel(library) if library.kernel_abi() == ABI else None
    except (OSError, AttributeError):  # made for another kind of processor, or of another version
        return None


@dataclass(frozen=True)
class Columns:
    """What is free, in place: `grid` and `rows` have a line per node and a place per card (`Free.grid`, `Free.seats`),
    `cpu` and `kind` an entry per node. Nodes of one kind are allowed to the same classes."""

    grid: Ints
    rows: Ints
    cpu: Ints
    kind: Ints
    kinds: int


@dataclass(frozen=True)
class Classes:
    """The expected classes; `allowed` says per class and kind of node whether it may go there."""

    count: Ints
    milli: Ints
    cpu: Ints
    allowed: Bytes


@dataclass(frozen=True)
class Asked:
    """A shape as the kernel knows it; `why` is the column of its `Fit`."""

    count: int
    milli: int
    cpu: int
    why: Codes


@dataclass(frozen=True)
class Rules:
    """`streams` has a line of class numbers per stream; `step` and `fresh_card` are times the number of streams."""

    streams: npt.NDArray[np.int16]
    quantum: int
    step: int
    fresh_card: int


@dataclass(frozen=True)
class Hosts:
    """Groups of hosts that may become dear; `price` is changed in place by whoever sets prices."""

    count: Ints
    cpu: Ints
    allowed: Bytes
    price: Ints


class _Handle:
    """What both policies share: columns that are kept alive, and buffers for questions and answers."""

    def __init__(self, kernel: Kernel, columns: Columns, close: str) -> None:
        self._calls, self._close = kernel.calls, getattr(kernel.calls, close)
        self._handle: int | None = None
        self._kept: list[object] = []
        self._scores = np.empty(len(columns.cpu), dtype=np.int64)
        self._rows = np.empty(MAX_CARDS, dtype=np.int64)
        self._scores_at, self._rows_at = self._at(self._scores), self._at(self._rows)
        self._asked = _Shape()
        self._asked_at = ctypes.addressof(self._asked)
        nodes, width = columns.grid.shape
        fields = (self._at(column) for column in (columns.grid, columns.rows, columns.cpu, columns.kind))
        self._pool = self._struct(_Pool(nodes, width, columns.kinds, *fields))

    def __del__(self) -> None:
        if self._handle:
            self._close(self._handle)
            self._handle = None

    def _opened(self, handle: int | None) -> int:
        if not handle:
            raise MemoryError("the compiled kernel has no memory, or a node has too many cards")
        return handle

    def _at(self, column: npt.NDArray[Any]) -> int:
        """Where a column lies; it is kept for as long as this."""
        if not column.flags.c_contiguous:
            raise ValueError("the kernel reads columns that lie in one piece")
        self._kept.append(column)
        return int(column.ctypes.data)

    def _struct(self, made: ctypes.Structure) -> int:
        self._kept.append(made)
        return ctypes.addressof(made)

    def _classes(self, classes: Classes) -> int:
        fields = (self._at(column) for column in (classes.count, classes.milli, classes.cpu, classes.allowed))
        return self._struct(_Classes(len(classes.count), *fields))

    def _ask(self, asked: Asked) -> int:
        shape = self._asked
        shape.count, shape.milli, shape.cpu = asked.count, asked.milli, asked.cpu
        shape.why = asked.why.ctypes.data
        return self._asked_at


class Fgd(_Handle):
    """FGD on these columns. `weight` is how often each class is expected, `steps` the least D (times the sum of the
    weights) of the scores 1 to 99."""

    def __init__(self, kernel: Kernel, columns: Columns, classes: Classes, weight: Ints, steps: Ints) -> None:
        super().__init__(kernel, columns, "fgd_close")
        opened = self._calls.fgd_open(self._pool, self._classes(classes), self._at(weight), self._at(steps))
        self._handle = self._opened(opened)

    def rate(self, asked: Asked, nodes: Ints) -> Ints:
        """A score per node; valid until the next call."""
        self._calls.fgd_rate(self._handle, self._ask(asked), nodes.ctypes.data, len(nodes), self._scores_at)
        return self._scores[: len(nodes)]

    def choose(self, asked: Asked, node: int) -> Ints:
        """Rows of the node's fitting cards, best first."""
        found = self._calls.fgd_choose(self._handle, self._ask(asked), node, self._rows_at)
        return self._rows[:found].copy()

    def fragment(self, node: int) -> int:
        """F of the node, times the sum of the weights."""
        return int(self._calls.fgd_fragment(self._handle, node))


class StreamFill(_Handle):
    """Stream Fill on these columns."""

    def __init__(self, kernel: Kernel, columns: Columns, classes: Classes, rules: Rules, hosts: Hosts) -> None:
        super().__init__(kernel, columns, "stream_close")
        number, length = rules.streams.shape
        made = _Rules(number, length, rules.quantum, rules.step, rules.fresh_card, self._at(rules.streams))
        fields = (self._at(column) for column in (hosts.count, hosts.cpu, hosts.allowed, hosts.price))
        groups = self._struct(_Hosts(len(hosts.count), *fields))
        opened = self._calls.stream_open(self._pool, self._classes(classes), self._struct(made), groups)
        self._handle = self._opened(opened)

    def rate(self, asked: Asked, slot: int, toll: Ints, nodes: Ints) -> Ints:
        """A score per node; valid until the next call. `slot` (below MAX_SLOTS) names what is remembered of the shape,
        `toll` what it pays on each kind of node."""
        shape, count = self._ask(asked), len(nodes)
        self._calls.stream_rate(self._handle, shape, slot, toll.ctypes.data, nodes.ctypes.data, count, self._scores_at)
        return self._scores[:count]

    def choose(self, asked: Asked, toll: Ints, node: int) -> Ints:
        """Rows of the node's fitting cards, best first."""
        found = self._calls.stream_choose(self._handle, self._ask(asked), toll.ctypes.data, node, self._rows_at)
        return self._rows[:found].copy()

    def value(self, node: int) -> int:
        """V of the node, times the number of streams."""
        return int(self._calls.stream_value(self._handle, node))

    @property
    def computed(self) -> int:
        """How many values were computed, not remembered."""
        return int(self._calls.stream_computed(self._handle))
