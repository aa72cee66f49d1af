"""Tables as people export them: CSV with a header, read so that every refusal names the line and the column.

Knows no trace; `trace` and `nodes` say which columns there are and what may stand in them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from gpupool.base.errors import BadTrace

if TYPE_CHECKING:
    from _csv import Reader

_SHOWN = 40


@dataclass(frozen=True)
class Row:
    """One line of a table; empty cells and absent columns are the same: not given."""

    table: str
    line: int
    cells: dict[str, str]

    def text(self, column: str, default: str = "") -> str:
        return self.cells.get(column, "") or default

    def integer(self, column: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number within bounds. Raises BadTrace, which names line and column."""
        return self._number(column, low, high, default, 1)

    def scaled(self, column: str, scale: int, low: int, high: int, default: int | None = None) -> int:
        """A decimal number within bounds, times `scale`, rounded: seconds with parts as nanoseconds."""
        return self._number(column, low, high, default, scale)

    def _number(self, column: str, low: int, high: int, default: int | None, scale: int) -> int:
        text = self.cells.get(column, "")
        if not text:
            if default is None:
                raise self.wrong(column, "is empty")
            return default
        try:
            value = Decimal(text)
        except InvalidOperation:
            raise self.wrong(column, f"{text[:_SHOWN]!r} is not a number") from None
        if not value.is_finite() or (scale == 1 and value != value.to_integral_value()):
            raise self.wrong(column, f"{text[:_SHOWN]} is not a whole number")
        if not low <= value <= high:
            raise self.wrong(column, f"{text[:_SHOWN]} is not from {low} to {high}")
        return int((value * scale).to_integral_value())

    def wrong(self, column: str, what: str) -> BadTrace:
        """The refusal of one cell, for whoever knows what is wrong with it."""
        return BadTrace(f"{self.table}, line {self.line}, column {column}: {what}", line=self.line, column=column)


def rows(table: str, text: str, required: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    """The lines of a table. Raises BadTrace for missing or unknown columns, lines of another length, and no lines."""
    reader = csv.reader(text.splitlines())
    lines = _lines(table, reader)
    header = [name.strip() for name in next(lines, [])]
    _check_header(table, header, required, optional)
    found = False
    for cells in lines:
        if not cells:
            continue
        if len(cells) != len(header):
            numbers = f"{len(cells)} cells, the header has {len(header)}"
            raise BadTrace(f"{table}, line {reader.line_num}: {numbers}", line=reader.line_num)
        found = True
        yield Row(table, reader.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=True)))
    if not found:
        raise BadTrace(f"{table} is empty: it has a header and no lines", hint="a trace needs at least one job")


def header_of(text: str) -> list[str]:
    """The names of the columns, to tell one kind of table from another."""
    return [name.strip() for name in next(_lines("the header", csv.reader(text.splitlines()[:1])), [])]


def _lines(table: str, reader: Reader) -> Iterator[list[str]]:
    """The cells of each line. Raises BadTrace for a cell that the csv module does not take."""
    try:
        yield from reader
    except csv.Error as error:
        raise BadTrace(f"{table}, line {reader.line_num}: {error}", line=reader.line_num) from None


def _check_header(table: str, header: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    if missing:
        raise BadTrace(
            f"{table} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            hint=f"it has: {', '.join(header) or 'nothing'}; needed: {', '.join(required)}",
            missing=missing,
        )
    twice = {name for name in header if header.count(name) > 1}
    unknown = [name for name in header if name not in {*required, *optional}]
    if twice or unknown:
        what = f"the column {min(twice)} twice" if twice else f"an unknown column {unknown[0][:_SHOWN]!r}"
        raise BadTrace(f"{table} has {what}", hint=f"known: {', '.join((*required, *optional))}")
