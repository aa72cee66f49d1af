"""Records of decisions as files: CSV, or Parquet where the name ends in `.parquet`; there whole or not at all.

Rows come in portions, so that a record of many lives is never in memory as a whole. Parquet needs the extra `parquet`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from gpupool.base.errors import BadTrace, Unavailable
from gpupool.drawing.page import replaced
from gpupool.scheduling.snapshot import Scored
from gpupool.simulation.columns import header_of
from gpupool.simulation.nodes import read_text

Rows = Iterable[Sequence[object]]

PARQUET = ".parquet"

_AMOUNTS = frozenset({"gpu_milli", "memory_bytes", "cpu_milli", "host_bytes", "node_free_milli"})
_SUMS = frozenset({"asked_milli", "allocated_milli", "level"})
_INTEGERS = _AMOUNTS | _SUMS | {"seed", "order", "arrivals", "score"}
_SECONDS = frozenset({"time"})
#: Digits of a time in Parquet, nanoseconds among them: 300 years.
_TIME_DIGITS = 19, 9


class Table(Protocol):
    """A file that is being written."""

    def write(self, rows: Rows) -> None: ...


@contextmanager
def written(path: Path, columns: Sequence[str]) -> Iterator[Table]:
    """A table to write to, there under its name once all is written. Raises OSError, Unavailable."""
    with replaced(path) as temporary:
        if is_parquet(str(path)):
            with _parquet(temporary, columns) as parquet:
                yield parquet
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                table = _Csv(file)
                table.write([columns])
                yield table


def header(path: str) -> list[str]:
    """The names of the columns. Raises BadTrace, Unavailable."""
    if not is_parquet(path):
        return header_of(read_text(path))
    return list(_opened(path).schema_arrow.names)


def read(path: str) -> Iterator[dict[str, str]]:
    """The lines of a record, as text; the first is line 2. Raises BadTrace, Unavailable."""
    if not is_parquet(path):
        yield from _rows(path, read_text(path))
        return
    try:
        for batch in _opened(path).iter_batches():
            for row in batch.to_pylist():
                yield {name: _text(value) for name, value in row.items()}
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def require(path: str) -> None:
    """Raises Unavailable where the file is to be Parquet and that cannot be written here."""
    if is_parquet(path):
        _pyarrow()


def is_parquet(path: str) -> bool:
    return path.lower().endswith(PARQUET)


def as_csv(rows: Rows, columns: Sequence[str]) -> str:
    """A short table as text."""
    out = io.StringIO()
    _Csv(out).write([columns, *rows])
    return out.getvalue()


def parts_text(scored: Scored) -> str:
    """`claim=500 worth=-120.5 step=150`; empty where the score says it all."""
    return " ".join(f"{name}={value:g}" if abs(value) < 10**6 else f"{name}={value}" for name, value in scored.parts)


class _Csv:
    def __init__(self, file: Any) -> None:
        self._writer = csv.writer(file, lineterminator="\n")

    def write(self, rows: Rows) -> None:
        self._writer.writerows(rows)


def _rows(path: str, text: str) -> Iterator[dict[str, str]]:
    """Raises BadTrace for a line that has not as many cells as the header."""
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(lines, [])
        for cells in lines:
            if cells and len(cells) != len(header):
                numbers = f"{len(cells)} cells, the header has {len(header)}"
                raise BadTrace(f"{path}, line {lines.line_num}: {numbers}", hint="was it cut off?")
            if cells:
                yield dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise BadTrace(f"{path}, line {lines.line_num}: {error}", hint="is it a CSV file?") from error


class _Parquet:
    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, rows: Rows) -> None:
        import pyarrow

        columns = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        fields = zip(self._schema, columns, strict=True)
        arrays = [pyarrow.array(_cells(field.name, column), field.type) for field, column in fields]
        self._writer.write_table(pyarrow.Table.from_arrays(arrays, schema=self._schema))


@contextmanager
def _parquet(path: Path, columns: Sequence[str]) -> Iterator[_Parquet]:
    parquet = _pyarrow()
    import pyarrow

    kinds = {name: pyarrow.int64() for name in _INTEGERS}
    kinds |= {name: pyarrow.decimal128(*_TIME_DIGITS) for name in _SECONDS}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in columns])
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        yield _Parquet(writer, schema)


def _cells(name: str, column: Iterable[Any]) -> list[Any]:
    if name in _SECONDS:
        return [None if cell == "" else Decimal(cell) for cell in column]
    if name in _INTEGERS:
        return [None if cell == "" else int(cell) for cell in column]
    return [str(cell) for cell in column]


def _text(value: object) -> str:
    """As the cell of a CSV."""
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return "" if value is None else str(value)


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        hint = "pip install 'gpupool[parquet]', or a name that ends in .csv"
        raise Unavailable(f"Parquet needs {error.name}, which is not installed", hint=hint) from None
    return pyarrow.parquet


def _opened(path: str) -> Any:
    try:
        return _pyarrow().ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of both kinds
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> BadTrace:
    return BadTrace(f"{path} cannot be read as Parquet: {_first_line(error)}", hint="is it whole?")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
