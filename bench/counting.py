"""Counting what a piece of work asks of SQLite: statements, rows handed out, and steps of its
virtual machine.

Counts are the same on every machine and in every run, which times are not. Steps are the proof of
an index: a statement that reads a whole table takes as many steps as the table has rows, whatever
its plan was called. Knows no table of ours.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

STEPS_AT_ONCE = 10
"""How many steps of SQLite's machine go by between two looks; the count is in units of so many."""


@dataclass
class Counts:
    """What happened on the connections of one engine inside `counting`."""

    rows: int = 0
    steps: int = 0
    asked: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def statements(self) -> int:
        """Statements with the text they had; BEGIN and COMMIT are not among them."""
        return len(self.asked)


@contextmanager
def counting(engine: sa.Engine) -> Iterator[Counts]:
    """Count everything the engine does meanwhile, in any thread."""
    counts = Counts()
    watched: dict[int, sqlite3.Connection] = {}

    def begins(
        connection: sa.Connection,
        cursor: Any,
        statement: str,
        parameters: Any,
        _c: Any,
        _many: bool,
    ) -> None:
        raw = _raw(connection)
        if id(raw) not in watched:
            watched[id(raw)] = raw
            raw.set_progress_handler(steps, STEPS_AT_ONCE)
        cursor.row_factory = row
        if statement.split(None, 1)[0] != "BEGIN":
            counts.asked.append((statement, parameters))

    def row(_cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> tuple[Any, ...]:
        counts.rows += 1
        return values

    def steps() -> int:
        counts.steps += STEPS_AT_ONCE
        return 0

    sa.event.listen(engine, "before_cursor_execute", begins)
    try:
        yield counts
    finally:
        sa.event.remove(engine, "before_cursor_execute", begins)
        for raw in watched.values():
            raw.set_progress_handler(None, 0)


def _raw(connection: sa.Connection) -> sqlite3.Connection:
    raw: Any = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def query_plans(engine: sa.Engine, counts: Counts) -> list[str]:
    """What SQLite plans for each different statement that was counted, a line per table it
    visits."""
    with engine.connect() as connection:
        raw = _raw(connection)
        different = {text: _one(parameters) for text, parameters in counts.asked}
        return [
            detail
            for text, parameters in different.items()
            for _id, _parent, _unused, detail in raw.execute(
                f"EXPLAIN QUERY PLAN {text}", parameters
            )
        ]


def _one(parameters: Any) -> Any:
    """The first set of parameters of a statement that was run for many."""
    return parameters[0] if isinstance(parameters, list) else parameters
