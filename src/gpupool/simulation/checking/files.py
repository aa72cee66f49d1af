"""Check files: choose the checker of a record, and make sure that lists and record are tables.

The lists are read by the readers of simulations first, so that a bad cell is named by its line and
column. The checkers then read the raw cells themselves.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadTrace
from gpupool.simulation.checking.lists import Row
from gpupool.simulation.checking.live import RecordFault, check_record
from gpupool.simulation.checking.protocol import check_protocol
from gpupool.simulation.replay import protocol_record
from gpupool.simulation.studies import decisions
from gpupool.simulation.traces import decision_files, openb, trace
from gpupool.simulation.traces.columns import read_header
from gpupool.simulation.traces.nodes import read_nodes, read_text

#: What a checker needs of a record; a record of another scheduler may leave out the rest.
_OF_LIVES = ("time", "event", "claim", "node", "cards", "gpu_milli", "memory_bytes")
_NOT_NEEDED = frozenset({"score", "parts", "reason"})
_OF_PROTOCOL = tuple(name for name in protocol_record.COLUMNS if name not in _NOT_NEEDED)


def check_files(
    claims: str, nodes: str, record: str, results: str | None = None
) -> list[RecordFault]:
    """Find what is wrong with a record, and with `results.json` in the folder `results`.

    Only the raw lists are compared with, never the engine.

    Raises:
        BadTrace: for a file that is no such table.
    """
    found = None if results is None else _read_results(Path(results) / "results.json")
    if "num_gpu" in read_header(read_text(claims)):
        openb.read_pods(Path(claims))
        openb.read_nodes(Path(nodes))
        lines = _read_record(
            record, _OF_PROTOCOL, decisions.COLUMNS, "simulate jobs.csv without --protocol"
        )
        return list(
            check_protocol(
                _read_raw_list(claims),
                _read_raw_list(nodes),
                lines,
                _check_protocol_results(found, results),
            )
        )
    trace.read_csv(claims, read_text(claims))
    read_nodes(nodes)
    lines = _read_record(record, _OF_LIVES, protocol_record.COLUMNS, "simulate LIST --protocol fgd")
    return check_record(
        _read_raw_list(claims), _read_raw_list(nodes), lines, _list_runs(found, results) or ()
    )


def _read_raw_list(path: str) -> list[Row]:
    rows: list[Row] = []
    for cells in csv.DictReader(io.StringIO(read_text(path))):
        rows.append({name.strip(): cell.strip() for name, cell in cells.items()})
    return rows


def _read_record(
    record: str, needed: Sequence[str], others: Sequence[str], made_by: str
) -> Iterator[Row]:
    """Read the lines of a record. Raises BadTrace where a needed column is missing."""
    header = decision_files.read_columns(record)
    missing = [name for name in needed if name not in header]
    if missing:
        is_other = all(name in header for name in others)
        hint = (
            f"it was written by {made_by}"
            if is_other
            else f"it has: {', '.join(header) or 'nothing'}"
        )
        raise BadTrace(f"{record} lacks the columns {', '.join(missing)}", hint=hint)
    return decision_files.read_decisions(record)


def _read_results(path: Path) -> Any:
    try:
        return json.loads(read_text(str(path)))
    except ValueError as error:
        raise BadTrace(
            f"{path} is no JSON: {error}", hint="it is written by simulate --out DIR"
        ) from None


def _check_protocol_results(found: Any, results: str | None) -> list[dict[str, Any]] | None:
    if found is None or (isinstance(found, list) and all("levels" in one for one in found)):
        return found
    raise BadTrace(
        f"{results}/results.json is not of --protocol fgd", hint="give the --out of that simulation"
    )


def _list_runs(found: Any, results: str | None) -> list[dict[str, Any]] | None:
    if found is None:
        return None
    if isinstance(found, dict) and "runs" in found:
        return list(found["runs"])
    raise BadTrace(
        f"{results}/results.json is of --protocol fgd", hint="give the --out of that simulation"
    )
