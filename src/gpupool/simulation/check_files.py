"""The checkers on files: which one reads a record, and that lists and record are tables at all.

The lists are read by the readers of simulations first, so that a bad cell is named by its line and column; the checkers
then read the raw cells themselves.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadTrace
from gpupool.simulation import decision_files, decisions, openb, protocol_record, trace
from gpupool.simulation.checking import Fault, check
from gpupool.simulation.checking_lists import Row
from gpupool.simulation.checking_protocol import check_protocol
from gpupool.simulation.columns import header_of
from gpupool.simulation.nodes import read_nodes, read_text

#: What a checker needs of a record; a record of another scheduler may leave out the rest.
_OF_LIVES = ("time", "event", "claim", "node", "cards", "gpu_milli", "memory_bytes")
_NOT_NEEDED = frozenset({"score", "parts", "reason"})
_OF_PROTOCOL = tuple(name for name in protocol_record.COLUMNS if name not in _NOT_NEEDED)


def check_files(claims: str, nodes: str, record: str, results: str | None = None) -> list[Fault]:
    """What is wrong with a record, by the raw lists alone, and with `results.json` in the folder `results`.

    Raises BadTrace for what is no such table.
    """
    found = None if results is None else _results(Path(results) / "results.json")
    if "num_gpu" in header_of(read_text(claims)):
        openb.read_pods(Path(claims))
        openb.read_nodes(Path(nodes))
        lines = _lines(record, _OF_PROTOCOL, decisions.COLUMNS, "simulate jobs.csv without --protocol")
        return list(check_protocol(_raw(claims), _raw(nodes), lines, _list_of(found, results)))
    trace.read_csv(claims, read_text(claims))
    read_nodes(nodes)
    lines = _lines(record, _OF_LIVES, protocol_record.COLUMNS, "simulate LIST --protocol fgd")
    return check(_raw(claims), _raw(nodes), lines, _runs_of(found, results) or ())


def _raw(path: str) -> list[Row]:
    return [_stripped(row) for row in csv.DictReader(io.StringIO(read_text(path)))]


def _stripped(row: dict[str, str]) -> Row:
    return {name.strip(): cell.strip() for name, cell in row.items()}


def _lines(record: str, needed: Sequence[str], others: Sequence[str], made_by: str) -> Iterator[Row]:
    """The lines, once they have the columns that are needed. Raises BadTrace."""
    header = decision_files.header(record)
    missing = [name for name in needed if name not in header]
    if missing:
        is_other = all(name in header for name in others)
        hint = f"it was written by {made_by}" if is_other else f"it has: {', '.join(header) or 'nothing'}"
        raise BadTrace(f"{record} lacks the columns {', '.join(missing)}", hint=hint)
    return decision_files.read(record)


def _results(path: Path) -> Any:
    try:
        return json.loads(read_text(str(path)))
    except ValueError as error:
        raise BadTrace(f"{path} is no JSON: {error}", hint="it is written by simulate --out DIR") from None


def _list_of(found: Any, results: str | None) -> list[dict[str, Any]] | None:
    if found is None or (isinstance(found, list) and all("levels" in one for one in found)):
        return found
    raise BadTrace(f"{results}/results.json is not of --protocol fgd", hint="give the --out of that simulation")


def _runs_of(found: Any, results: str | None) -> list[dict[str, Any]] | None:
    if found is None:
        return None
    if isinstance(found, dict) and "runs" in found:
        return list(found["runs"])
    raise BadTrace(f"{results}/results.json is of --protocol fgd", hint="give the --out of that simulation")
