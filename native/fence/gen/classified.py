"""The classified table: read, and held against the headers' symbols.

Knows what a row may say; knows nothing of C. Every fault of a table is found in one go, so that a
new header is classified in one sitting.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parents[2] / "cuda")
)  # loaded by file, from the build and from tests

from declarations import Prototype
from symbols import Symbol, Symbols, split

HEADING = ("symbol", "class", "handler", "note")
CLASSES = ("pass", "wait", "account", "throttle", "virtualize", "deny")
UNDECLARED = "undeclared"  # drivers export it, no header declares it: known, so that it does not look like a new one
FAMILIES = ("launch", "graph", "copy", "memset")
_HANDLERS = {
    "pass": r"-|undeclared",
    "wait": r"-",
    "account": r"own(:cu\w+)?",
    "throttle": rf"own(:cu\w+)?|{'|'.join(FAMILIES)}",
    "virtualize": r"own(:\w+)?",
    "deny": r"deny:(CUDA|NVML)_ERROR_\w+",
}


class BadTable(Exception):
    """All faults of a table, a line each."""


@dataclass(frozen=True)
class Row:
    """One symbol's row. `symbol` is what the headers say of it."""

    symbol: Symbol
    klass: str
    handler: str
    note: str

    @property
    def stem(self) -> str | None:
        """NAME of a handler `own:NAME`."""
        return self.handler.partition(":")[2] if self.handler.startswith("own:") else None

    @property
    def handled(self) -> bool:
        return self.klass != "pass"


def read(path: Path, symbols: Symbols) -> list[Row]:
    """The rows of a table, in the order of their names. Raises BadTable with every fault found."""
    faults: list[str] = []
    rows = list(_rows(path, symbols, faults))
    named = [row.symbol.name for row in rows]
    faults += [
        f"{name}: the headers declare it, the table has no row"
        for name in sorted(set(symbols.by_name) - set(named))
    ]
    faults += [
        f"{name}: has more than one row"
        for name in sorted({name for name in named if named.count(name) > 1})
    ]
    faults += _families_that_differ(rows)
    faults += _twins_that_differ(rows)
    if faults:
        raise BadTable("\n".join(f"{path.name}: {fault}" for fault in faults))
    return sorted(rows, key=lambda row: row.symbol.name.encode())


def _rows(path: Path, symbols: Symbols, faults: list[str]) -> Iterator[Row]:
    lines = path.read_text().splitlines()
    if tuple(lines[0].split("\t")) != HEADING:
        faults.append(f"the first line must be {' '.join(HEADING)}, tabs between")
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(HEADING):
            faults.append(f"line {number} has {len(cells)} cells, not {len(HEADING)}")
        elif cells[0] not in symbols.by_name and cells[2] != UNDECLARED:
            faults.append(f"{cells[0]}: no header declares it")
        elif cells[0] in symbols.by_name and cells[2] == UNDECLARED:
            faults.append(f"{cells[0]}: a header declares it by now, so it must be classified")
        else:
            row = Row(symbols.by_name.get(cells[0]) or undeclared(cells[0]), *cells[1:])
            faults += _faults(row)
            yield row


def undeclared(name: str) -> Symbol:
    """A symbol of which nothing is known but that it passes; its member of the real functions can
    only be compared."""
    return Symbol(name, *split(name), None, (), Prototype("int", ()))


def _faults(row: Row) -> Iterator[str]:
    if row.klass not in CLASSES:
        yield f"{row.symbol.name}: class {row.klass!r} is none of {', '.join(CLASSES)}"
    elif not re.fullmatch(_HANDLERS[row.klass], row.handler):
        yield f"{row.symbol.name}: handler {row.handler!r} does not fit class {row.klass}"
    if row.klass == "deny" and not row.note:
        yield f"{row.symbol.name}: a refusal needs a note that says why"


def _families_that_differ(rows: Iterable[Row]) -> Iterator[str]:
    """Symbols of one `own:NAME` share one function, so they must have one shape."""
    shapes: dict[str, tuple[str, tuple[str, ...]]] = {}
    for row in rows:
        if row.stem is None:
            continue
        first, shape = shapes.setdefault(row.stem, (row.symbol.name, row.symbol.prototype.types()))
        if shape != row.symbol.prototype.types():
            yield f"{row.symbol.name}: is not of the shape of {first}, both have handler {row.handler}"


def _twins_that_differ(rows: Iterable[Row]) -> Iterator[str]:
    """A twin does what the plain symbol does, so it is classified alike."""
    plain = {row.symbol.name: row for row in rows if not row.symbol.twin}
    for row in rows:
        other = plain.get(row.symbol.plain) if row.symbol.twin else None
        if other and (other.klass, other.handler) != (row.klass, row.handler):
            yield f"{row.symbol.name}: is {row.klass} {row.handler}, but its twin is {other.klass} {other.handler}"
