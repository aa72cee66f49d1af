"""Files of audit records: JSON lines, which can be verified, and CSV for spreadsheets."""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpupool.base.errors import AuditFileUnusable, BadOption

#: Columns of a CSV, in their order.
FIELDS = (
    "seq",
    "at_ns",
    "kind",
    "user",
    "tenant",
    "role",
    "credential",
    "source",
    "action",
    "objects",
    "status",
    "code",
    "request",
    "changes",
    "times",
    "data",
    "previous",
    "hash",
)
#: Signs with which a spreadsheet begins a formula.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class WrittenFile:
    """What was written: how many records, and the last one as NUMBER:HASH."""

    records: int
    head: str | None


def write_records(records: Iterable[Mapping[str, Any]], target: str, output: str) -> WrittenFile:
    """Write records to a new file, or to the standard output for `-`.

    The file is there once it is whole; only its owner may read it.

    Raises:
        BadOption: the file is there already, or cannot be written.
    """
    with _open_target(target) as file:
        writer = csv.writer(file, lineterminator="\n") if output == "csv" else None
        if writer is not None:
            writer.writerow(FIELDS)
        count = 0
        head = None
        for record in records:
            if writer is not None:
                writer.writerow([format_cell(record.get(name)) for name in FIELDS])
            else:
                file.write(json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n")
            count += 1
            head = f"{record['seq']}:{record['hash']}"
    return WrittenFile(count, head)


def read_records(path: str) -> Iterator[Mapping[str, Any] | str]:
    """Read a file of JSON lines: each record, or why a line is none.

    Raises:
        AuditFileUnusable: the file cannot be read, or its first line is no record.
    """
    hint = "gpupool audit export FILE  writes one"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                record = _parse_line(line)
                if record is not None:
                    yield record
                elif number == 1:
                    raise AuditFileUnusable(f"{path}: line 1 is no audit record", hint=hint)
                else:
                    yield f"line {number} of {path} is no record"
    except OSError as error:
        raise AuditFileUnusable(f"{path}: {error.strerror}", hint=hint) from error


def format_cell(value: Any) -> object:
    """Format a cell; text that a spreadsheet would run as a formula gets an apostrophe.

    >>> format_cell("=1+1"), format_cell(["j-1"]), format_cell(None)
    ("'=1+1", '["j-1"]', '')
    """
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_SIGNS) else value
    return "" if value is None else value


def _parse_line(line: str) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "hash" in record else None


@contextmanager
def _open_target(target: str) -> Iterator[IO[str]]:
    if target == "-":
        yield sys.stdout
        return
    path = Path(target).absolute()
    if path.exists():
        raise BadOption(
            f"{target} is there already; an export replaces nothing", hint="name another"
        )
    try:
        with tempfile.TemporaryDirectory(prefix=".gpupool-audit-", dir=path.parent) as folder:
            made = Path(folder) / "records"
            with open(
                os.open(made, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8"
            ) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(made, path)
    except OSError as error:
        raise BadOption(
            f"{target} cannot be written: {error.strerror}", hint="name a file elsewhere"
        ) from error
