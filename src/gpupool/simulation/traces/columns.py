"""Read CSV tables with a header, so that every error names the line and the column.

Knows no trace: `trace`, `nodes` and `openb` say which columns there are and what they may hold.
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

#: Characters of a bad cell that an error quotes: a binary file must not fill the terminal.
_SHOWN = 40


@dataclass(frozen=True)
class TableRow:
    """One line of a table. An empty cell and an absent column mean the same: no value."""

    table: str
    line: int
    cells: dict[str, str]

    def get_text(self, column: str, default: str = "") -> str:
        """Return a cell as it is written, `default` for an empty one."""
        return self.cells.get(column, "") or default

    def read_integer(self, column: str, low: int, high: int, default: int | None = None) -> int:
        """Read a whole number within bounds; an empty cell is `default`.

        Raises:
            BadTrace: naming line and column; for an empty cell too where `default` is None.
        """
        return self._read_number(column, low, high, default, 1)

    def read_scaled(
        self, column: str, scale: int, low: int, high: int, default: int | None = None
    ) -> int:
        """Read a decimal number within bounds and multiply it by `scale`, rounded.

        With `scale` 10**9 it reads seconds with a fraction as nanoseconds. Raises as
        `read_integer`.
        """
        return self._read_number(column, low, high, default, scale)

    def _read_number(
        self, column: str, low: int, high: int, default: int | None, scale: int
    ) -> int:
        text = self.cells.get(column, "")
        if not text:
            if default is None:
                raise self.refuse_cell(column, "is empty")
            return default
        # Decimal and not float: 0.1 s must be 100,000,000 ns on every machine.
        try:
            value = Decimal(text)
        except InvalidOperation:
            raise self.refuse_cell(column, f"{text[:_SHOWN]!r} is not a number") from None
        if not value.is_finite() or (scale == 1 and value != value.to_integral_value()):
            raise self.refuse_cell(column, f"{text[:_SHOWN]} is not a whole number")
        if not low <= value <= high:
            raise self.refuse_cell(column, f"{text[:_SHOWN]} is not from {low} to {high}")
        return int((value * scale).to_integral_value())

    def refuse_cell(self, column: str, what: str) -> BadTrace:
        """Build the error of one cell; the caller raises it and says what is wrong."""
        return BadTrace(
            f"{self.table}, line {self.line}, column {column}: {what}",
            line=self.line,
            column=column,
        )


def read_rows(
    table: str, text: str, required: Sequence[str], optional: Sequence[str]
) -> Iterator[TableRow]:
    """Yield the lines of a table.

    Raises:
        BadTrace: for missing, unknown or doubled columns, lines of another length than the
            header, and a table without lines.
    """
    reader = csv.reader(text.splitlines())
    lines = _read_lines(table, reader)
    header = _strip_cells(next(lines, []))
    _check_header(table, header, required, optional)
    is_empty = True
    for cells in lines:
        # The csv module gives an empty line as no cells; exports often end with one.
        if not cells:
            continue
        if len(cells) != len(header):
            numbers = f"{len(cells)} cells, the header has {len(header)}"
            raise BadTrace(f"{table}, line {reader.line_num}: {numbers}", line=reader.line_num)
        is_empty = False
        yield TableRow(table, reader.line_num, dict(zip(header, _strip_cells(cells), strict=True)))
    if is_empty:
        raise BadTrace(
            f"{table} is empty: it has a header and no lines", hint="a trace needs at least one job"
        )


def _strip_cells(cells: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def read_header(text: str) -> list[str]:
    """Return the names of the columns; callers tell one kind of table from another by them."""
    lines = _read_lines("the header", csv.reader(text.splitlines()[:1]))
    return _strip_cells(next(lines, []))


def _read_lines(table: str, reader: Reader) -> Iterator[list[str]]:
    """Yield the cells of each line. Raises BadTrace for a cell that the csv module refuses."""
    try:
        yield from reader
    except csv.Error as error:
        raise BadTrace(f"{table}, line {reader.line_num}: {error}", line=reader.line_num) from None


def _check_header(
    table: str, header: Sequence[str], required: Sequence[str], optional: Sequence[str]
) -> None:
    missing = [name for name in required if name not in header]
    if missing:
        raise BadTrace(
            f"{table} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            hint=f"it has: {', '.join(header) or 'nothing'}; needed: {', '.join(required)}",
            missing=missing,
        )
    known = (*required, *optional)
    # An unknown column is refused, not passed over: most are misspelt names of optional ones, and
    # a replay with a default in their place would look right.
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise BadTrace(
            f"{table} has the column {min(twice)} twice", hint=f"known: {', '.join(known)}"
        )
    for name in header:
        if name not in known:
            raise BadTrace(
                f"{table} has an unknown column {name[:_SHOWN]!r}",
                hint=f"known: {', '.join(known)}",
            )
