"""How much each transaction writes: rows that SQLite says have changed, counted instead of
timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa


@contextmanager
def written_rows(engine: sa.Engine) -> Iterator[list[int]]:
    """Rows that each committed transaction of a SQLite engine changed, in the order of the
    commits."""
    found: list[int] = []

    def changes(connection: sa.Connection) -> int:
        return int(connection.connection.dbapi_connection.total_changes)  # type: ignore[union-attr]

    def began(connection: sa.Connection) -> None:
        connection.info["rows_before"] = changes(connection)

    def committed(connection: sa.Connection) -> None:
        found.append(changes(connection) - connection.info["rows_before"])

    sa.event.listen(engine, "begin", began)
    sa.event.listen(engine, "commit", committed)
    try:
        yield found
    finally:
        sa.event.remove(engine, "begin", began)
        sa.event.remove(engine, "commit", committed)
