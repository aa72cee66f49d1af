"""Write and read records of decisions as CSV, or as Parquet where the name ends in `.parquet`.

A file appears under its name only when it is complete. Rows come in portions, so a record of many
lives is never in memory as a whole. Parquet needs the extra `parquet`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from gpupool.base.errors import BadTrace, ServiceUnavailable
from gpupool.drawing.page import replace_file
from gpupool.scheduling.snapshot.plan import PlacementScore
from gpupool.simulation.traces.columns import read_header
from gpupool.simulation.traces.nodes import read_text

Rows = Iterable[Sequence[object]]

PARQUET = ".parquet"

_AMOUNTS = frozenset({"gpu_milli", "memory_bytes", "cpu_milli", "host_bytes", "node_free_milli"})
_SUMS = frozenset({"asked_milli", "allocated_milli", "level"})
_INTEGERS = _AMOUNTS | _SUMS | {"seed", "order", "arrivals", "score"}
#: Decimals in Parquet, and not floats: instants have nanoseconds.
_SECONDS = frozenset({"time"})
#: Digits of a time in Parquet, nanoseconds among them: 300 years.
_TIME_DIGITS = 19, 9


class DecisionTable(Protocol):
    """A file that is being written."""

    def write_rows(self, rows: Rows) -> None: ...


@contextmanager
def open_table(path: Path, columns: Sequence[str]) -> Iterator[DecisionTable]:
    """Open a table for writing; the file appears under `path` when the block ends without error.

    Raises:
        OSError: if it cannot be written.
        ServiceUnavailable: for Parquet without the extra `parquet`.
    """
    with replace_file(path) as temporary:
        if is_parquet(str(path)):
            with _open_parquet_table(temporary, columns) as parquet:
                yield parquet
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                table = _CsvTable(file)
                table.write_rows([columns])
                yield table


def read_columns(path: str) -> list[str]:
    """Read the names of the columns. Raises BadTrace, ServiceUnavailable."""
    if not is_parquet(path):
        return read_header(read_text(path))
    return list(_open_parquet(path).schema_arrow.names)


def read_decisions(path: str) -> Iterator[dict[str, str]]:
    """Yield the lines of a record with every cell as text. Raises BadTrace, ServiceUnavailable."""
    if not is_parquet(path):
        yield from _read_csv_rows(path, read_text(path))
        return
    try:
        for batch in _open_parquet(path).iter_batches():
            for row in batch.to_pylist():
                yield {name: _format_cell(value) for name, value in row.items()}
    except (OSError, ValueError) as error:
        raise _refuse_file(path, error) from error


def require_format(path: str) -> None:
    """Raise ServiceUnavailable for a Parquet file that cannot be written here.

    Commands call it before a simulation of minutes, not after it.
    """
    if is_parquet(path):
        _import_parquet()


def is_parquet(path: str) -> bool:
    return path.lower().endswith(PARQUET)


def format_csv(rows: Rows, columns: Sequence[str]) -> str:
    """Format a short table as CSV text."""
    out = io.StringIO()
    _CsvTable(out).write_rows([columns, *rows])
    return out.getvalue()


def format_parts(scored: PlacementScore) -> str:
    """Format the parts of a score: `claim=500 worth=-120.5 step=150`; empty without parts."""
    words: list[str] = []
    for name, value in scored.parts:
        # `g` keeps six digits: of a larger value it would drop the last ones.
        words.append(f"{name}={value:g}" if abs(value) < 10**6 else f"{name}={value}")
    return " ".join(words)


class _CsvTable:
    def __init__(self, file: Any) -> None:
        self._writer = csv.writer(file, lineterminator="\n")

    def write_rows(self, rows: Rows) -> None:
        self._writer.writerows(rows)


def _read_csv_rows(path: str, text: str) -> Iterator[dict[str, str]]:
    """Raises BadTrace for a line that has not as many cells as the header."""
    # Reasons may hold line breaks inside quotes, so the text is not split into lines first.
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(lines, [])
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                numbers = f"{len(cells)} cells, the header has {len(header)}"
                raise BadTrace(f"{path}, line {lines.line_num}: {numbers}", hint="was it cut off?")
            yield dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise BadTrace(
            f"{path}, line {lines.line_num}: {error}", hint="is it a CSV file?"
        ) from error


class _ParquetTable:
    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write_rows(self, rows: Rows) -> None:
        import pyarrow

        # `zip` of no rows gives no columns; pyarrow wants one, though empty, for each field.
        columns = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        arrays: list[Any] = []
        for field, column in zip(self._schema, columns, strict=True):
            arrays.append(pyarrow.array(_convert_column(field.name, column), field.type))
        self._writer.write_table(pyarrow.Table.from_arrays(arrays, schema=self._schema))


@contextmanager
def _open_parquet_table(path: Path, columns: Sequence[str]) -> Iterator[_ParquetTable]:
    parquet = _import_parquet()
    import pyarrow

    fields: list[tuple[str, Any]] = []
    for name in columns:
        if name in _INTEGERS:
            fields.append((name, pyarrow.int64()))
        elif name in _SECONDS:
            fields.append((name, pyarrow.decimal128(*_TIME_DIGITS)))
        else:
            fields.append((name, pyarrow.string()))
    schema = pyarrow.schema(fields)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        yield _ParquetTable(writer, schema)


def _convert_column(name: str, column: Iterable[Any]) -> list[Any]:
    if name in _SECONDS:
        return [None if cell == "" else Decimal(cell) for cell in column]
    if name in _INTEGERS:
        return [None if cell == "" else int(cell) for cell in column]
    return [str(cell) for cell in column]


def _format_cell(value: object) -> str:
    """Format a value of Parquet as the CSV of the same record has it."""
    if isinstance(value, Decimal):
        # `normalize` drops the nine places that the column type adds, `f` its exponents.
        return f"{value.normalize():f}"
    return "" if value is None else str(value)


def _import_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        hint = "pip install 'gpupool[parquet]', or a name that ends in .csv"
        raise ServiceUnavailable(
            f"Parquet needs {error.name}, which is not installed", hint=hint
        ) from None
    return pyarrow.parquet


def _open_parquet(path: str) -> Any:
    try:
        return _import_parquet().ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of both kinds
        raise _refuse_file(path, error) from error


def _refuse_file(path: str, error: Exception) -> BadTrace:
    return BadTrace(
        f"{path} cannot be read as Parquet: {_get_first_line(error)}", hint="is it whole?"
    )


def _get_first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
