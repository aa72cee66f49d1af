"""Read the raw lists and the cells of a record for the checkers, in exact integers.

Imports the standard library alone (a test asserts it): what the engine reads wrongly is read here
by other code, so the same fault cannot hide itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

#: Of its own: the checkers share no constant with what they check.
NANOS_PER_SECOND = 10**9
MIB = 2**20
#: Thousandths of compute on a card.
CARD = 1000

Row = Mapping[str, str]


@dataclass(frozen=True)
class ListedClaim:
    """One job as the list of claims has it, or one member of it."""

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
class ListedNode:
    """One node as the list of nodes has it, and what is used of it while a record is read.

    `milli` and `memory` are used thousandths and bytes by the card's place.
    """

    models: str
    cards: int
    memory_bytes: int | None
    cpu_milli: int | None
    host_bytes: int | None
    cpu_used: int = 0
    host_used: int = 0
    milli: Counter[int] = field(default_factory=Counter)
    memory: Counter[int] = field(default_factory=Counter)


def read_claims(rows: Iterable[Row]) -> Iterator[tuple[str, ListedClaim]]:
    """Yield every job by its name in a record; members of a job are `name.0`, `name.1`, ..."""
    for number, row in enumerate(rows):
        # Empty cells have the same defaults as in the engine's reader (`traces.trace`).
        name = row.get("job") or f"job-{number:06d}"
        members = parse_whole(row.get("members") or "1")
        milli = parse_whole(row.get("gpu_milli") or "0")
        profile = bool(row.get("profile"))
        claim = ListedClaim(
            arrival_ns=parse_nanoseconds(row["arrival_seconds"]),
            run_ns=max(1, parse_nanoseconds(row["seconds"])),
            milli=milli,
            cards=parse_whole(row.get("cards") or str(int(bool(milli or profile)))),
            memory_bytes=parse_whole(row.get("gpu_memory_mib") or "0") * MIB,
            model=row.get("model") or "",
            cpu_milli=parse_whole(row.get("cpu_milli") or "0"),
            host_bytes=parse_whole(row.get("host_mib") or "0") * MIB,
            gang=row.get("gang") or (name if members > 1 else ""),
            partition=profile,
        )
        if members == 1:
            yield name, claim
            continue
        for member in range(members):
            yield f"{name}.{member}", claim


def read_node(row: Row, line: int) -> tuple[str, ListedNode]:
    """Read one line of a list of nodes; a node without a name is called by its line."""
    memory_mib = row.get("gpu_memory_mib")
    cpu_milli = row.get("cpu_milli")
    host_mib = row.get("memory_mib")
    node = ListedNode(
        models=row["model"],
        cards=parse_whole(row["gpu"]),
        memory_bytes=parse_whole(memory_mib) * MIB if memory_mib else None,
        cpu_milli=parse_whole(cpu_milli) if cpu_milli else None,
        host_bytes=parse_whole(host_mib) * MIB if host_mib else None,
    )
    return row["sn"] or f"line-{line}", node


def parse_whole(text: str) -> int:
    """Parse a whole number of a raw list, also written as `500.0`."""
    return int(Decimal(text))


def parse_nanoseconds(text: str) -> int:
    """Parse seconds with a fraction, rounded: no clock tells less than a nanosecond."""
    return int((Decimal(text) * NANOS_PER_SECOND).to_integral_value())


def read_integer(row: Row, column: str) -> int:
    """Read a whole number of the record. Raises ValueError, which names the column."""
    try:
        return int(row[column])
    except ValueError:
        raise ValueError(f"{column} is {row[column]!r}, not a whole number") from None


def read_cards(row: Row) -> tuple[int, ...]:
    """Read the cards of a placement. Raises ValueError."""
    try:
        return tuple(int(card) for card in row["cards"].split())
    except ValueError:
        raise ValueError(f"cards is {row['cards']!r}, not whole numbers with spaces") from None


def is_model_match(has: str, asks: str) -> bool:
    """Whether a card's model is one that a claim asks for.

    `A100` means any of them, `A100-80G` only that one; several are joined by `|`.
    """
    if not asks:
        return True
    model = has.lower()
    words = asks.lower().split("|")
    return any(model == word or model.startswith(word + "-") for word in words)
