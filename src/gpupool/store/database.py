"""Connections and transactions on SQLite or PostgreSQL.

There is one writer at a time and its transactions are short: it takes the pool's own row
first, which orders the event log by commit, and finds there whether it still is the server
that may write. What can be decided before a transaction is decided before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import Deposed, DiskFull, StoreBusy
from gpupool.store import replay
from gpupool.store.durability import Durability, SqliteLog
from gpupool.store.engines import BUSY_SECONDS, anchored, connect, copy_database, sqlite_url
from gpupool.store.failures import store_errors
from gpupool.store.faults import Fault, no_fault
from gpupool.store.hub import Hub
from gpupool.store.leadership import Leadership
from gpupool.store.reserve import Reserve
from gpupool.store.tables import events, pool
from gpupool.store.turns import Turns

__all__ = ["BUSY_SECONDS", "Store", "Write", "connect", "new_store", "open_store", "sqlite_url"]

# Statements of every transaction are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_TAKE_POOL = sa.select(pool).with_for_update()
_SET_POOL = pool.update()


@cache
def _inserting(table: sa.Table) -> sa.Insert:
    return table.insert()


@dataclass
class Write:
    """An open write transaction: its connection, its instant, and what it will announce."""

    connection: sa.Connection
    now_ns: int
    pool_generation: int
    _events: list[dict[str, Any]] = field(default_factory=list)
    _topics: set[Hashable] = field(default_factory=set)
    _notes: list[Callable[[], object]] = field(default_factory=list)
    _touched: bool = False
    _answer: replay.Answer | None = None

    def execute(self, statement: Any, parameters: Any = None) -> sa.CursorResult[Any]:
        return self.connection.execute(statement, parameters)

    def insert(self, table: sa.Table, **values: Any) -> int:
        """Add one row; the number it got as its key."""
        key = self.connection.execute(_inserting(table), values).inserted_primary_key
        assert key is not None
        return int(key[0])

    def event(
        self, kind: str, subject: str, *, tenant_id: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Add to the event log; numbered at commit, in the order of the calls."""
        self._events.append(
            {"kind": kind, "subject": subject, "tenant_id": tenant_id, "data": dict(data or {}), "at_ns": self.now_ns}
        )

    def announce(self, *topics: Hashable) -> None:
        """Wake the waiters for these topics, once committed."""
        self._topics.update(topics)

    def note(self, note: Callable[[], object]) -> None:
        """Call this once committed, before the answer is sent and before the next write begins.

        So a copy in memory follows the ledger in the order of its commits. It must not write.
        """
        self._notes.append(note)

    def subjects(self) -> frozenset[str]:
        """What this write is about: kinds of its events, and topics by their first word."""
        topics = (topic[0] if isinstance(topic, tuple) else topic for topic in self._topics)
        return frozenset([*(str(event["kind"]) for event in self._events), *map(str, topics)])

    def touch_ledger(self) -> int:
        """Say that this transaction changes the ledger; the pool's new generation."""
        self._touched = True
        return self.pool_generation + 1

    def answer(self, status: int, body: Any, *, generation: int | None = None) -> None:
        """What a repetition of this request gets; `body` is JSON-ready, `generation` its ETag. See store.replay."""
        self._answer = replay.Answer(status, {"body": body} | replay.etag_of_generation(generation))

    def answer_once(self, made: str) -> None:
        """The answer holds a secret: a repetition is told that `made` exists, never the secret."""
        self._answer = replay.Answer(replay.UNANSWERED, {"made": made})


class Store:
    """The database of one pool, for the one server that holds it."""

    def __init__(
        self,
        engine: sa.Engine,
        clock: LedgerClock,
        hub: Hub | None = None,
        *,
        busy_seconds: float = BUSY_SECONDS,
        fault: Fault = no_fault,
        sync: str = "group",
    ) -> None:
        self.engine, self.clock, self.hub = engine, clock, hub or Hub()
        # Held open, so that the log is never removed as the last connection closes: it is flushed by its descriptor.
        self._anchor = anchored(engine) if sync == "group" else None
        self.durability = Durability(None if self._anchor is None else SqliteLog(Path(engine.url.database or "")))
        sa.event.listen(engine, "engine_disposed", self._end)
        self.reserve: Reserve | None = None
        self.leading: Leadership | None = None
        """The lease of this server on PostgreSQL; None on SQLite, where it is alone."""
        self._busy_seconds, self._fault = busy_seconds, fault
        self._turns = Turns()
        self._writer = 0
        self._holder = ""
        self._idle_ns = 0
        self.pool_id = ""
        """The pool that the database holds, known once it is taken."""

    def take(self, holder: str, leading: Leadership | None = None) -> None:
        """Become the server that may write; the one before is refused from here on.

        With a lease to lead, that is taken in the same transaction. Raises PoolHeldElsewhere.
        """
        with self._turn(), store_errors(), self.engine.connect() as connection:
            if leading is not None:
                leading.claim(connection)
            row = _begin_write(connection)
            self.clock.begin_at(row.ledger_ns)
            now_ns = self.clock.now_ns()
            # In one transaction with the ledger's time, so that a server killed here counts nothing twice.
            idle_ns = row.idle_ns + max(0, now_ns - row.ledger_ns)
            connection.execute(pool.update().values(holder=holder, ledger_ns=now_ns, idle_ns=idle_ns))
            with self.durability.committing():
                connection.commit()
            self._holder, self.leading, self._idle_ns = holder, leading, idle_ns
            self.pool_id = row.pool_id
        self.durability.wait(self._busy_seconds)

    def running_ns(self, now_ns: int) -> int:
        """That instant of the ledger, less the time in which no server ran."""
        return now_ns - self._idle_ns

    def close(self) -> None:
        """Flush what is left and close every connection."""
        self.engine.dispose()

    def copy_to(self, path: Path) -> None:
        """Copy an SQLite database as it is now into one file, whole and on disk; other writes go on meanwhile.

        Works from open files, so also after their names are gone. Raises sqlite3.Error, OSError.
        """
        assert self._anchor is not None
        copy_database(self._anchor, path)

    def _end(self, _engine: sa.Engine) -> None:
        self.durability.close()
        if self._anchor is not None:
            self._anchor.close()
        if self.reserve is not None:
            self.reserve.close()

    def keep_reserve(self) -> None:
        """Keep space for what ends jobs and frees their shares; see `store.reserve`. SQLite only."""
        if self._anchor is not None:
            self.reserve = Reserve(Path(self.engine.url.database or ""))

    def _check_room(self) -> None:
        if self.reserve is not None and not self.reserve.has_room():
            raise DiskFull(
                "the disk of the pool's database is full and nothing was changed",
                hint="free some space and try again; jobs can be stopped meanwhile",
            )

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One view of one instant, however many statements; takes no lock that a writer would wait for."""
        with store_errors(), self.engine.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection
            connection.rollback()

    @contextmanager
    def write(self, *, freeing: bool = False) -> Iterator[Write]:
        """One short transaction; commits at the end, rolls back on any error, then wakes the waiters.

        It is on disk once `durability` says so, which every answer waits for. On a full disk only `freeing` ones
        go on, in the space that is kept for them; the others raise DiskFull.
        """
        self.durability.check()
        if not freeing:
            self._check_room()
        with self._turn(), store_errors(), self.engine.connect() as connection:
            ask = replay.pending()
            try:
                row = _begin_write(connection)
                if row.holder != self._holder:
                    raise Deposed("another server has taken this pool", hint="gpupool doctor  tells which one leads")
                write = Write(connection, max(self.clock.now_ns(), row.ledger_ns), row.generation)
                yield write
                _finish(write, row.event_seq)
                if ask is not None:
                    replay.record(connection, ask, write._answer, self.running_ns(write.now_ns))
                self._fault("before-commit", write.subjects)
                with self.durability.committing():
                    connection.commit()
                if self.reserve is not None:
                    self.reserve.refill()
            except BaseException:
                connection.rollback()
                raise
            self._fault("after-commit", write.subjects)
            for note in write._notes:
                note()
            if ask is not None:
                ask.committed(write._answer)
        topics = write._topics | ({"events"} if write._events else set())
        if topics:
            self.hub.publish(topics)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This process's writers queue here, in the order of their coming: in the database waiting is polling."""
        if self._writer == threading.get_ident():
            raise RuntimeError("a write inside a write of the same thread would wait for itself")
        if not self._turns.take(self._busy_seconds):
            raise StoreBusy(
                f"another change to the pool took longer than {self._busy_seconds:g} s; nothing was changed",
                hint="try again",
            )
        self._writer = threading.get_ident()
        try:
            yield
        finally:
            self._writer = 0
            self._turns.give()


def open_store(
    engine: sa.Engine,
    holder: str,
    *,
    busy_seconds: float = BUSY_SECONDS,
    fault: Fault = no_fault,
    sync: str = "group",
    leading: Leadership | None = None,
) -> Store:
    """The store of a prepared database, taken by `holder`; its clock goes on from the last instant in the books."""
    store = new_store(engine, busy_seconds=busy_seconds, fault=fault, sync=sync)
    store.take(holder, leading)
    return store


def new_store(
    engine: sa.Engine, *, busy_seconds: float = BUSY_SECONDS, fault: Fault = no_fault, sync: str = "group"
) -> Store:
    """The same before it is taken: it can be read, and its clock is the machine's."""
    return Store(engine, LedgerClock(), busy_seconds=busy_seconds, fault=fault, sync=sync)


def _begin_write(connection: sa.Connection) -> Any:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    return connection.execute(_TAKE_POOL).one()


def _finish(write: Write, last_seq: int) -> None:
    rows = [{**row, "seq": last_seq + 1 + n} for n, row in enumerate(write._events)]
    if rows:
        write.execute(_inserting(events), rows)
    write.execute(
        _SET_POOL,
        {
            "event_seq": last_seq + len(rows),
            "ledger_ns": write.now_ns,
            "generation": write.pool_generation + (1 if write._touched else 0),
        },
    )
