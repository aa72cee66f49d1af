"""The raw lists and the cells of a record as the checkers read them: exact integers, nothing of the engine.

Imports the standard library alone (a test asserts it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

NS = 10**9
MIB = 2**20
CARD = 1000
"""Thousandths of compute on a card."""

Row = Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    arrival_ns: int
    run_ns: int
    milli: int
    cards: int
    memory_bytes: int
    model: str
    cpu_milli: int
    host_bytes: int
    gang: str
    partition: bool


@dataclass
class Node:
    models: str
    cards: int
    memory_bytes: int | None
    cpu_milli: int | None
    host_bytes: int | None
    cpu_used: int = 0
    host_used: int = 0
    milli: Counter[int] = field(default_factory=Counter)
    memory: Counter[int] = field(default_factory=Counter)


def claims_of(rows: Iterable[Row]) -> Iterator[tuple[str, Claim]]:
    for number, row in enumerate(rows):
        name, members = row.get("job") or f"job-{number:06d}", whole(row.get("members") or "1")
        milli = whole(row.get("gpu_milli") or "0")
        profile = bool(row.get("profile"))
        gang = row.get("gang") or (name if members > 1 else "")
        claim = Claim(
            arrival_ns=nanoseconds(row["arrival_seconds"]),
            run_ns=max(1, nanoseconds(row["seconds"])),
            milli=milli,
            cards=whole(row.get("cards") or str(int(bool(milli or profile)))),
            memory_bytes=whole(row.get("gpu_memory_mib") or "0") * MIB,
            model=row.get("model") or "",
            cpu_milli=whole(row.get("cpu_milli") or "0"),
            host_bytes=whole(row.get("host_mib") or "0") * MIB,
            gang=gang,
            partition=profile,
        )
        for member in [name] if members == 1 else [f"{name}.{place}" for place in range(members)]:
            yield member, claim


def node_of(row: Row, line: int) -> tuple[str, Node]:
    size, cpu, host = row.get("gpu_memory_mib"), row.get("cpu_milli"), row.get("memory_mib")
    node = Node(
        models=row["model"],
        cards=whole(row["gpu"]),
        memory_bytes=whole(size) * MIB if size else None,
        cpu_milli=whole(cpu) if cpu else None,
        host_bytes=whole(host) * MIB if host else None,
    )
    return row["sn"] or f"line-{line}", node


def whole(text: str) -> int:
    """A whole number of a raw list, also as `500.0`."""
    return int(Decimal(text))


def nanoseconds(text: str) -> int:
    """Of seconds with parts, rounded: what is shorter than a nanosecond no clock tells."""
    return int((Decimal(text) * NS).to_integral_value())


def integer(row: Row, column: str) -> int:
    """A cell of the record. Raises ValueError, which names the column."""
    try:
        return int(row[column])
    except ValueError:
        raise ValueError(f"{column} is {row[column]!r}, not a whole number") from None


def places(row: Row) -> tuple[int, ...]:
    """The cards of a placement. Raises ValueError."""
    try:
        return tuple(int(card) for card in row["cards"].split())
    except ValueError:
        raise ValueError(f"cards is {row['cards']!r}, not whole numbers with spaces") from None


def is_model(has: str, asks: str) -> bool:
    """`A100` is any of them, `A100-80G` only that one; several are joined by `|`."""
    return not asks or any(
        has.lower() == one.lower() or has.lower().startswith(one.lower() + "-") for one in asks.split("|")
    )
