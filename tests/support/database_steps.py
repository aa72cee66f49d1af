"""How much work SQLite does: steps of its virtual machine, counted instead of timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

EACH = 10
"""Steps between two calls of the handler: the error of each statement."""


@dataclass
class Steps:
    """Counted so far."""

    count: int = 0


@contextmanager
def database_steps(engine: sa.Engine) -> Iterator[Steps]:
    """Steps that the engine's transactions take which begin inside the block."""
    found = Steps()

    def counted() -> int:
        found.count += EACH
        return 0  # go on

    def began(connection: sa.Connection) -> None:
        connection.connection.dbapi_connection.set_progress_handler(counted, EACH)  # type: ignore[union-attr]

    sa.event.listen(engine, "begin", began)
    try:
        yield found
    finally:
        sa.event.remove(engine, "begin", began)
        with engine.connect() as connection:
            connection.connection.dbapi_connection.set_progress_handler(None, 0)  # type: ignore[union-attr]
