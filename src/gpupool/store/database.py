"""Connections and transactions on SQLite or PostgreSQL.

There is one writer at a time and its transactions are short: it takes the pool's own row
first, which orders the event log by commit, and finds there whether it still is the server
that may write. Nobody decides anything inside a transaction that could be decided before.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, OperationalError

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import Conflict, DiskFull, GpupoolError, StoreBusy, StoreCorrupt, Unavailable
from gpupool.store.hub import Hub
from gpupool.store.tables import events, pool

BUSY_SECONDS = 10


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def connect(url: str) -> sa.Engine:
    """An engine on `sqlite:///PATH` or `postgresql+psycopg://…`; opens nothing yet."""
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    options: dict[str, Any] = {"json_serializer": _compact_json, "pool_pre_ping": not url.startswith("sqlite")}
    if url.startswith("sqlite"):
        options["connect_args"] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
        options |= {"pool_size": 8, "max_overflow": 56, "poolclass": sa.QueuePool}
    engine = sa.create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # WAL with NORMAL loses no committed transaction when a process is killed; a power cut may
    # take the last ones, and takes the jobs they were about as well.
    connection.isolation_level = None  # we begin transactions ourselves
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "wal_autocheckpoint=2000"):
        connection.execute(f"PRAGMA {pragma}")


@dataclass
class Write:
    """An open write transaction: its connection, its instant, and what it will announce."""

    connection: sa.Connection
    now_ns: int
    pool_generation: int
    _events: list[dict[str, Any]] = field(default_factory=list)
    _topics: set[Hashable] = field(default_factory=set)
    _touched: bool = False

    def execute(self, statement: Any, parameters: Any = None) -> sa.CursorResult[Any]:
        return self.connection.execute(statement, parameters)

    def event(
        self, kind: str, subject: str, *, tenant_id: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Add to the event log; numbered at commit, in the order of the calls."""
        self._events.append(
            {"kind": kind, "subject": subject, "tenant_id": tenant_id, "data": dict(data or {}), "at_ns": self.now_ns}
        )

    def announce(self, *topics: Hashable) -> None:
        """Wake whoever waits for these topics, once committed."""
        self._topics.update(topics)

    def touch_ledger(self) -> int:
        """Say that this transaction changes the ledger; the pool's new generation."""
        self._touched = True
        return self.pool_generation + 1


class Store:
    """The database of one pool, for the one server that holds it."""

    def __init__(self, engine: sa.Engine, clock: LedgerClock, hub: Hub | None = None) -> None:
        self.engine, self.clock, self.hub = engine, clock, hub or Hub()
        self._lock = threading.Lock()
        self._holder = ""

    def take(self, holder: str) -> None:
        """Become the server that may write; the one before is refused from here on."""
        with self.engine.connect() as connection:
            _begin_write(connection)
            connection.execute(pool.update().values(holder=holder))
            connection.commit()
        self._holder = holder

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A consistent view; takes no lock that a writer would wait for."""
        with _store_errors(), self.engine.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()

    @contextmanager
    def write(self) -> Iterator[Write]:
        """One short transaction; commits at the end, rolls back on any error, then wakes the waiters."""
        with self._lock, _store_errors(), self.engine.connect() as connection:
            try:
                row = _begin_write(connection)
                if row.holder != self._holder:
                    raise Conflict("another server has taken this pool", hint="gpupool doctor shows which one runs")
                write = Write(connection, max(self.clock.now_ns(), row.ledger_ns), row.generation)
                yield write
                _finish(write, row.event_seq)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
        topics = write._topics | ({"events"} if write._events else set())
        if topics:
            self.hub.publish(topics)


def _begin_write(connection: sa.Connection) -> Any:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    return connection.execute(sa.select(pool).with_for_update()).one()


def _finish(write: Write, last_seq: int) -> None:
    rows = [{**row, "seq": last_seq + 1 + n} for n, row in enumerate(write._events)]
    if rows:
        write.execute(events.insert(), rows)
    write.execute(
        pool.update().values(
            event_seq=last_seq + len(rows),
            ledger_ns=write.now_ns,
            generation=write.pool_generation + (1 if write._touched else 0),
        )
    )


@contextmanager
def _store_errors() -> Iterator[None]:
    """Say in our words what the database says in its own."""
    try:
        yield
    except (DatabaseError, sqlite3.DatabaseError) as error:
        raise translate(error) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _disk_full() from error
        raise


def translate(error: BaseException) -> GpupoolError:
    """The public error for a database failure; anything unexpected stays an internal one."""
    text = str(getattr(error, "orig", error)).lower()
    if "full" in text and ("disk" in text or "database" in text or "no space" in text):
        return _disk_full()
    if "locked" in text or "busy" in text:
        return StoreBusy(
            f"the database stayed locked for {BUSY_SECONDS} s",
            hint="another program has it open: find it with  fuser gpupool.db",
        )
    if "malformed" in text or "not a database" in text or "corrupt" in text:
        return StoreCorrupt(
            f"the pool's database is damaged: {text}",
            hint="stop the pool, keep the file, and restore a copy of gpupool.db",
        )
    if isinstance(error, OperationalError):
        return Unavailable(f"the database does not answer: {text.strip()}", hint="gpupool doctor")
    raise error


def _disk_full() -> DiskFull:
    free = os.statvfs("/").f_bavail
    return DiskFull(
        "the disk of the pool's database is full; nothing was changed",
        hint="free some space and try again",
        root_blocks_free=free,
    )
