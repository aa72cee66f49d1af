"""The promises of a report: what was promised of the cards, delivered, borrowed and denied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.terminal.output import Row, TableColumn

#: What the use of a share is limited to, by its kind of sharing.
LIMITS: Mapping[str, str] = {
    "fixed": "its promise",
    "burst": "the card",
    "best-effort": "what is left",
    "mps": "its promise",
    "offline": "what all others leave",
}
#: Of a row in the API's answer, beside what it held.
PROMISE_FIELDS = (
    "sharing",
    "kept_gpu_milliseconds",
    "borrowed_gpu_milliseconds",
    "denied_gpu_milliseconds",
)
EXPLANATION = (
    "delivered: GPU time within the promise; borrowed: beyond it; denied: promised time that "
    "passed while a job waited for its card\n"
    "compared over about a second, where a fence counts; --: not counted"
)


def list_promise_columns(rows: Sequence[Row]) -> list[TableColumn]:
    """List the columns after those that name a row; the limit where rows are jobs."""
    columns = [
        _hours_column("PROMISED", "card_milliseconds"),
        _hours_column("DELIVERED", "kept_gpu_milliseconds"),
        _hours_column("BORROWED", "borrowed_gpu_milliseconds"),
        _hours_column("DENIED", "denied_gpu_milliseconds"),
    ]
    if any(row.get("sharing") for row in rows):
        columns.append(TableColumn("LIMITED TO", _describe_limit))
    return columns


def sum_promises(rows: Sequence[Row]) -> Row:
    """Sum the rows of tenants. A sum of which a part is not counted is not known."""
    total: dict[str, Any] = {"kind": "total"}
    for name in ("card_milliseconds", *PROMISE_FIELDS[1:]):
        values = [row.get(name) for row in rows]
        total[name] = None if None in values else sum(values)
    return total


def _hours_column(title: str, name: str) -> TableColumn:
    def describe(row: Row) -> str | None:
        value = row.get(name)
        return None if value is None else f"{value / 3_600_000:.4f} h"

    return TableColumn(title, describe, right=True)


def _describe_limit(row: Row) -> str:
    return LIMITS.get(row.get("sharing") or "", " ")
