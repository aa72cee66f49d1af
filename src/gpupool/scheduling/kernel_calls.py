"""What the compiled kernel is asked: its structures, the columns that they point to, and the two costly policies.

The same answers as in NumPy over the same columns: it reads those of `Free` where they are and writes nothing but its
answers. Knows the kernel's structures (native/kernel/kernel.h), no rule of placement.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.kernel import MAX_CARDS, Kernel
from gpupool.scheduling.snapshot import Ints

MAX_SLOTS = 1024

#: Nodes of which the highest score is kept together.
BLOCK = 256
UNKNOWN = int(np.iinfo(np.int64).max)


Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int8]

_INT, _AT = ctypes.c_int64, ctypes.c_void_p


def _fields(ints: str = "", columns: str = "", codes: str = "", answers: str = "") -> tuple[tuple[str, Any], ...]:
    names = ((ints, _INT), (columns, _AT), (codes, ctypes.c_int8), (answers, _AT))
    return tuple((name, kind) for words, kind in names for name in words.split())


class _Pool(ctypes.Structure):
    _fields_ = _fields("nodes width kinds", "grid rows cpu kind size memory")


class _Classes(ctypes.Structure):
    _fields_ = _fields("size", "count milli cpu allowed need")


class _Shape(ctypes.Structure):
    _fields_ = _fields("count milli cpu", "why need")


class _Rules(ctypes.Structure):
    _fields_ = _fields("number length quantum step fresh_card", "streams cuts weight")


class _Hosts(ctypes.Structure):
    _fields_ = _fields("size", "count cpu allowed price")


class _Amounts(ctypes.Structure):
    _fields_ = _fields("", "milli size cpu host grid slot open")


class _Rooms(ctypes.Structure):
    _fields_ = _fields(
        "width cards_in_all",
        "rows cards milli size memory cpu host count held asked_cpu asked_host need part group found whole open",
    )


class _Scores(ctypes.Structure):
    _fields_ = _fields("nodes", "by_rank rank roomy highest")


class _Fit(ctypes.Structure):
    _fields_ = (
        *_fields("width need_stride", "rows cards milli size memory need cpu host fixed"),
        *_fields("count held asked_cpu asked_host", "", "whole not_whole compute no_memory no_cpu no_host"),
        *_fields("", "why fitting roomy looked"),
    )


class Places(NamedTuple):
    """Where cards are: a line per node and a place per card in the order of their index.

    `grid` says what is free there (below 0 where no open card is), `rows` which row of the cards' columns it is,
    `cards` how many places of a line are cards at all.
    """

    grid: Ints
    rows: Ints
    cards: Ints


@dataclass(frozen=True)
class Columns:
    """What is free, in place; `cpu` and `kind` are per node. Nodes of one kind are allowed the same classes.

    `size` and `memory`, per card, are bytes free and in all, where memory plays a part.
    """

    places: Places
    cpu: Ints
    kind: Ints
    kinds: int
    size: Ints | None = None
    memory: Ints | None = None


@dataclass(frozen=True)
class Classes:
    """The expected classes; `allowed` says per class and kind of node whether it may go there, `need` what a seat takes
    of a card's memory there, in thousandths, where memory plays a part."""

    count: Ints
    milli: Ints
    cpu: Ints
    allowed: Bytes
    need: Ints | None = None


class Asked:
    """A shape as the kernel knows it; `why` is the column of its `Fit`, kept and read at every question, `need` what a
    seat takes of a card's memory on each kind of node, as for classes."""

    def __init__(self, count: int, milli: int, cpu: int, why: Codes, need: Ints | None = None) -> None:
        self.count, self.milli, self.cpu, self._kept = count, milli, cpu, (why, need)
        self._shape = _Shape(count, milli, cpu, _where(why), None if need is None else _where(need))
        self.at = ctypes.addressof(self._shape)


@dataclass(frozen=True)
class Rules:
    """`streams` has a line of class numbers per stream; or `weight` says how often each class is expected, and a node
    is worth what they could use. `cuts` is what a part of a card is worth besides, per kind of node and milli-devices
    from 0 to 1000. It, `step` and `fresh_card` are times the scale."""

    streams: npt.NDArray[np.int16]
    quantum: int
    step: int
    fresh_card: int
    cuts: Ints
    weight: Ints | None = None

    @property
    def scale(self) -> int:
        """Values are in milli-devices times this."""
        return len(self.streams) if self.weight is None else int(self.weight.sum())


@dataclass(frozen=True)
class Hosts:
    """Groups of hosts that may become dear; `price` is changed in place by whoever sets prices."""

    count: Ints
    cpu: Ints
    allowed: Bytes
    price: Ints


def _where(column: npt.NDArray[Any]) -> int:
    if not column.flags.c_contiguous:
        raise ValueError("the kernel reads columns that lie in one piece")
    return int(column.ctypes.data)


class _Kept:
    """Structures and the columns they point to, for as long as this lives."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def _at(self, column: npt.NDArray[Any]) -> int:
        self._kept.append(column)
        return _where(column)

    def _struct(self, kind: type[ctypes.Structure], /, **fields: int | npt.NDArray[Any] | None) -> int:
        made = kind(**{n: self._at(v) if isinstance(v, np.ndarray) else v for n, v in fields.items()})
        self._kept.append(made)
        return ctypes.addressof(made)


class Amounts(_Kept):
    """The columns of what is free, which this adds to in place; `columns` are those of `struct kernel_amounts`."""

    def __init__(self, kernel: Kernel, **columns: npt.NDArray[Any]) -> None:
        super().__init__()
        self._call = kernel.calls.amounts_add
        self._amounts = self._struct(_Amounts, **columns)
        self._rows, self._sizes = (np.empty(MAX_CARDS, dtype=np.int64) for _ in range(2))
        self._rows_at, self._sizes_at = self._at(self._rows), self._at(self._sizes)

    def add(self, sign: int, node: int, rows: Ints, milli: int, sizes: Ints, cpu: int, host: int) -> None:
        """`sign` times so much to each of these cards, each named once, and to the node."""
        count = len(rows)
        self._rows[:count] = rows
        self._sizes[:count] = sizes
        self._call(self._amounts, sign, node, self._rows_at, count, milli, self._sizes_at, cpu, host)


class RoomCount(_Kept):
    """On how many nodes shapes have room; `fields` are those of `struct kernel_rooms`, which the caller changes."""

    def __init__(self, kernel: Kernel, places: Places, **fields: npt.NDArray[Any]) -> None:
        super().__init__()
        self._call = kernel.calls.rooms_count
        width, cards = places.rows.shape[1], len(fields["milli"])
        self._rooms = self._struct(
            _Rooms, width=width, cards_in_all=cards, rows=places.rows, cards=places.cards, **fields
        )

    def add(self, first: int, shapes: int, nodes: Ints, sign: int) -> None:
        """`sign` for each of these nodes that has room for each of so many shapes."""
        self._call(self._rooms, first, shapes, nodes.ctypes.data, len(nodes), sign)


class Scores(_Kept):
    """Where `StreamFill.mend` writes: scores by rank, the rank of each node, and which nodes are roomy."""

    def __init__(self, kernel: Kernel, by_rank: Ints, rank: Ints, roomy: npt.NDArray[np.bool_]) -> None:
        super().__init__()
        self._best = kernel.calls.scores_best
        nodes, blocks = len(by_rank), -(-len(by_rank) // BLOCK)
        self._highest = np.full(blocks, UNKNOWN, dtype=np.int64)
        columns = {"by_rank": by_rank, "rank": rank, "roomy": roomy, "highest": self._highest}
        self.at = self._struct(_Scores, nodes=nodes, **columns)

    def forget(self) -> None:
        """Scores were written by another than `mend`: the highest of them is looked for anew."""
        self._highest[:] = UNKNOWN

    def best(self) -> int:
        """The lowest rank with the highest score, -1 where no node is feasible; of what `mend` has written alone."""
        found: int = self._best(self.at)
        return found


class Look(_Kept):
    """One shape against every card: judges nodes anew and writes `why`, `fitting` and `roomy`.

    `need` may be one number for all cards. `fields` are those of `struct kernel_fit` by name.
    """

    def __init__(self, kernel: Kernel, places: Places, need: Ints, **fields: int | npt.NDArray[Any]) -> None:
        super().__init__()
        self._look = kernel.calls.fit_look
        one = need.strides == (0,)
        fields |= {"need_stride": int(not one), "need": need[:1].copy() if one else need}
        fields["memory"] = np.ascontiguousarray(fields["memory"], dtype=np.int64)
        width = places.rows.shape[1]
        self._fit = self._struct(_Fit, width=width, rows=places.rows, cards=places.cards, **fields)

    def __call__(self, nodes: int, count: int, call: int) -> int:
        """`nodes` is where so many numbers of nodes lie, `call` a number of its own; how many cards were looked at."""
        found: int = self._look(self._fit, nodes, count, call)
        return found


class _Policy(_Kept):
    """What both policies share: the pool's columns, and buffers for answers."""

    def __init__(self, kernel: Kernel, columns: Columns, close: str) -> None:
        super().__init__()
        self._calls, self._close = kernel.calls, getattr(kernel.calls, close)
        self._handle: int | None = None
        nodes, width = columns.places.grid.shape
        self._scores, self._rows = np.empty(nodes, dtype=np.int64), np.empty(max(width, 1), dtype=np.int64)
        self._scores_at, self._rows_at = self._at(self._scores), self._at(self._rows)
        self._pool = self._struct(
            _Pool,
            nodes=nodes,
            width=width,
            kinds=columns.kinds,
            grid=columns.places.grid,
            rows=columns.places.rows,
            cpu=columns.cpu,
            kind=columns.kind,
            size=columns.size,
            memory=columns.memory,
        )

    def __del__(self) -> None:
        if self._handle:
            self._close(self._handle)
            self._handle = None

    def _opened(self, handle: int | None) -> int:
        if not handle:
            raise MemoryError("the compiled kernel has no memory, or a node has too many cards")
        return handle

    def _classes(self, classes: Classes) -> int:
        return self._struct(_Classes, size=len(classes.count), **vars(classes))


class Fgd(_Policy):
    """FGD on these columns. `weight` is how often each class is expected, `steps` the least D (times the sum of the
    weights) of the scores 1 to 99."""

    def __init__(self, kernel: Kernel, columns: Columns, classes: Classes, weight: Ints, steps: Ints) -> None:
        super().__init__(kernel, columns, "fgd_close")
        opened = self._calls.fgd_open(self._pool, self._classes(classes), self._at(weight), self._at(steps))
        self._handle = self._opened(opened)

    def rate(self, asked: Asked, nodes: Ints) -> Ints:
        """A score per node."""
        self._calls.fgd_rate(self._handle, asked.at, nodes.ctypes.data, len(nodes), self._scores_at)
        return self._scores[: len(nodes)].copy()

    def choose(self, asked: Asked, node: int) -> Ints:
        """Rows of the node's fitting cards, best first."""
        found = self._calls.fgd_choose(self._handle, asked.at, node, self._rows_at)
        return self._rows[:found].copy()

    def fragment(self, node: int) -> int:
        """F of the node, times the sum of the weights."""
        return int(self._calls.fgd_fragment(self._handle, node))


class StreamFill(_Policy):
    """Stream Fill on these columns."""

    def __init__(self, kernel: Kernel, columns: Columns, classes: Classes, rules: Rules, hosts: Hosts) -> None:
        super().__init__(kernel, columns, "stream_close")
        number, length = rules.streams.shape
        made = self._struct(_Rules, number=number, length=length, **vars(rules))
        groups = self._struct(_Hosts, size=len(hosts.count), **vars(hosts))
        opened = self._calls.stream_open(self._pool, self._classes(classes), made, groups)
        self._handle = self._opened(opened)

    def rate(self, asked: Asked, slot: int, toll: Ints, nodes: Ints) -> Ints:
        """A score per node. `slot` (below MAX_SLOTS) names what is remembered of the shape, `toll` what it pays on each
        kind of node."""
        count = len(nodes)
        at, toll_at = nodes.ctypes.data, toll.ctypes.data
        self._calls.stream_rate(self._handle, asked.at, slot, toll_at, at, count, self._scores_at)
        return self._scores[:count].copy()

    def mend(self, asked: Asked, slot: int, toll: Ints, scores: Scores, nodes: int, count: int) -> None:
        """As `rate`, into the scores of a shape; `nodes` is where so many numbers of nodes lie, roomy or not."""
        self._calls.stream_mend(self._handle, asked.at, slot, toll.ctypes.data, scores.at, nodes, count)

    def choose(self, asked: Asked, toll: Ints, node: int) -> Ints:
        """Rows of the node's fitting cards, best first."""
        found = self._calls.stream_choose(self._handle, asked.at, toll.ctypes.data, node, self._rows_at)
        return self._rows[:found].copy()

    def value(self, node: int) -> int:
        """What the node is worth, times the scale."""
        return int(self._calls.stream_value(self._handle, node))

    @property
    def computed(self) -> int:
        """How many values were computed, not remembered."""
        return int(self._calls.stream_computed(self._handle))
