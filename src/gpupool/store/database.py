"""Connections and transactions on SQLite or PostgreSQL.

There is one writer at a time and its transactions are short: it takes the pool's own row
first, which orders the event log by commit, and finds there whether it still is the server
that may write. What can be decided before a transaction is decided before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import DiskFull, LostLeadership, ServiceUnavailable, StoreBusy
from gpupool.base.supervision import register
from gpupool.store import acts, idempotency
from gpupool.store.durability import CommitDurability, SqliteLog
from gpupool.store.engines import BUSY_SECONDS, connect, copy_database, hold_log_open, sqlite_url
from gpupool.store.failures import store_errors
from gpupool.store.faults import Fault, no_fault
from gpupool.store.leadership import LeaderLease
from gpupool.store.notifier import CommitNotifier
from gpupool.store.reserve import DiskReserve
from gpupool.store.secrets.key_file import SecretKeys
from gpupool.store.secrets.vault import SecretVault
from gpupool.store.tables import pool
from gpupool.store.turns import TurnQueue
from gpupool.store.write_transaction import WriteTransaction, finish_write
from gpupool.wire.audit.chain import ChainHead

__all__ = [
    "BUSY_SECONDS",
    "Store",
    "WriteTransaction",
    "connect",
    "new_store",
    "open_store",
    "sqlite_url",
]

# Made once: SQLAlchemy takes longer to make a statement than SQLite to run it.
_TAKE_POOL = sa.select(pool).with_for_update()


class Store:
    """The database of one pool, for the one server that holds it. Thread-safe."""

    def __init__(
        self,
        engine: sa.Engine,
        clock: LedgerClock,
        notifier: CommitNotifier | None = None,
        *,
        busy_seconds: float = BUSY_SECONDS,
        fault: Fault = no_fault,
        sync: str = "group",
        keys: SecretKeys | None = None,
    ) -> None:
        """Make it. `keys` encrypt secrets; None: they live as long as this object."""
        self.engine = engine
        self.secrets = SecretVault(keys)
        self.clock = clock
        self.notifier = notifier or CommitNotifier()
        # Held open, so that the log is never removed as the last connection closes: it is flushed
        # by its descriptor.
        self._anchor = hold_log_open(engine) if sync == "group" else None
        self.durability = CommitDurability(
            None if self._anchor is None else SqliteLog(Path(engine.url.database or ""))
        )
        sa.event.listen(engine, "engine_disposed", self._close_files)
        self.reserve: DiskReserve | None = None
        self.leading: LeaderLease | None = None
        """The lease of this server on PostgreSQL; None on SQLite, where it is alone."""
        self._busy_seconds = busy_seconds
        self._fault = fault
        self._turns = TurnQueue()
        #: What is done in each write before its commit, after all that its caller wrote; by name, so
        #: that a service that is made anew replaces its own step.
        self.commit_steps: dict[str, Callable[[WriteTransaction], None]] = {}
        self._writer = 0
        self._holder = ""
        self._idle_ns = 0
        #: The pool's row before a commit that failed: whether it was carried out is not known.
        self._row_in_doubt: Any = None
        self.noted_seq = 0
        """The last event that copies in memory contain: their notes of its commit were called."""
        self.pool_id = ""
        """The pool that the database holds, known once it is taken."""

    def take(self, holder: str, leading: LeaderLease | None = None) -> None:
        """Become the server that may write; the one before is refused from here on.

        With a lease to lead, that is taken in the same transaction. Raises PoolHeldElsewhere.
        """
        with self._take_turn(), store_errors(), self.engine.connect() as connection:
            if leading is not None:
                leading.claim(connection)
            row = _begin_write(connection)
            self.clock.begin_at(row.ledger_ns)
            now_ns = self.clock.now_ns()
            # In one transaction with the ledger's time, so that a server killed here counts nothing
            # twice.
            idle_ns = row.idle_ns + max(0, now_ns - row.ledger_ns)
            connection.execute(
                pool.update().values(holder=holder, ledger_ns=now_ns, idle_ns=idle_ns)
            )
            with self.durability.count_commit():
                connection.commit()
            self._holder = holder
            self.leading = leading
            self._idle_ns = idle_ns
            self.noted_seq = row.event_seq
            self.pool_id = row.pool_id
        self.durability.wait(self._busy_seconds)

    def running_ns(self, now_ns: int) -> int:
        """Return that instant of the ledger, less the time in which no server ran."""
        return now_ns - self._idle_ns

    def close(self) -> None:
        """Flush what is left and close every connection."""
        self.engine.dispose()

    def copy_to(self, path: Path) -> None:
        """Copy an SQLite database as it is now into one file, whole and on disk.

        Other writes go on meanwhile. Works from open files, so also after their names are gone.
        Raises sqlite3.Error, OSError.
        """
        assert self._anchor is not None
        copy_database(self._anchor, path)

    def _close_files(self, _engine: sa.Engine) -> None:
        self.durability.close()
        if self._anchor is not None:
            self._anchor.close()
        if self.reserve is not None:
            self.reserve.close()

    def keep_reserve(self) -> None:
        """Keep space for what ends jobs and frees their shares; see `store.reserve`.

        SQLite only.
        """
        if self._anchor is not None:
            self.reserve = DiskReserve(Path(self.engine.url.database or ""))

    def _check_room(self) -> None:
        if self.reserve is not None and not self.reserve.has_room():
            raise DiskFull(
                "the disk of the pool's database is full and nothing was changed",
                hint="free some space and try again; jobs can be stopped meanwhile",
            )

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Give one view of one instant, however many statements; no writer waits for it."""
        with store_errors(), self.engine.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            try:
                yield connection
            finally:
                _roll_back(connection)

    @contextmanager
    def write(self, *, freeing: bool = False) -> Iterator[WriteTransaction]:
        """Give one short transaction; it commits at the end, rolls back on any error.

        Then it wakes the waiters. It is on disk once `durability` says so, which every answer waits
        for. On a full disk only `freeing` ones go on, in the space that is kept for them; the
        others raise DiskFull.
        """
        self.durability.check()
        if not freeing:
            self._check_room()
        with self._take_turn(), store_errors(), self.engine.connect() as connection:
            ask = idempotency.get_pending_request()
            act = acts.current.get()
            try:
                row = _begin_write(connection)
                # Read under the lock of the row: a server that was stopped and continued writes
                # nothing late.
                if row.holder != self._holder:
                    raise LostLeadership(
                        "another server has taken this pool",
                        hint="gpupool doctor  tells which one leads",
                    )
                self._settle_doubt(row)
                write = WriteTransaction(
                    connection,
                    max(self.clock.now_ns(), row.ledger_ns),
                    row.generation,
                    ChainHead(row.audit_seq, row.audit_hash),
                )
                yield write
                for step in self.commit_steps.values():
                    step(write)
                entry = None if act is None else act.describe(write)
                if entry is not None:
                    write.audit(entry)
                last_seq = finish_write(write, row.event_seq)
                if ask is not None:
                    idempotency.record_answer(
                        connection, ask, write._answer, self.running_ns(write.now_ns)
                    )
                # Nothing is promised before the commit, everything after it: tests kill the process
                # at both.
                self._fault("before-commit", write.subjects)
                with self.durability.count_commit():
                    self._commit(connection, row)
                if self.reserve is not None:
                    self.reserve.refill()
            except BaseException:
                _roll_back(connection)
                raise
            if act is not None and entry is not None:
                act.mark_committed()
            self._fault("after-commit", write.subjects)
            _call_notes(write)
            self.noted_seq = last_seq
            if ask is not None:
                ask.mark_committed(write._answer)
        topics = write._topics | ({"events"} if write._events else set())
        if topics:
            self.notifier.publish_topics(topics)

    def _commit(self, connection: sa.Connection, row: Any) -> None:
        try:
            connection.commit()
        except BaseException:
            self._row_in_doubt = row
            raise

    def _settle_doubt(self, row: Any) -> None:
        """Find whether a commit that failed was carried out all the same.

        PostgreSQL may lose the connection behind it. The copies in memory miss such a commit, so a
        job of it would wait, or a card stay taken, until the next start: the process is restarted.
        """
        if self._row_in_doubt is None or row == self._row_in_doubt:
            self._row_in_doubt = None
            return
        register.end_process("store")
        raise ServiceUnavailable(
            "the database carried a change out without its answer, and this server starts again",
            hint="try again",
        )

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Queue this process's writers in the order of their coming.

        In the database waiting is polling.
        """
        ident = threading.get_ident()
        if self._writer == ident:
            raise RuntimeError("a write inside a write of the same thread would wait for itself")
        if not self._turns.take(self._busy_seconds):
            raise StoreBusy(
                f"another change to the pool took longer than {self._busy_seconds:g} s; nothing "
                "was changed",
                hint="try again",
            )
        # Nothing is allocated from here to `try`: a turn that is lost for want of memory is never
        # given on, and no later change is made.
        try:
            self._writer = ident
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
    leading: LeaderLease | None = None,
) -> Store:
    """Open a prepared database, taken by `holder`.

    Its clock goes on from the last instant in the books.
    """
    store = new_store(engine, busy_seconds=busy_seconds, fault=fault, sync=sync)
    store.take(holder, leading)
    return store


def new_store(
    engine: sa.Engine,
    *,
    busy_seconds: float = BUSY_SECONDS,
    fault: Fault = no_fault,
    sync: str = "group",
    keys: SecretKeys | None = None,
) -> Store:
    """Open the same before it is taken: it can be read, and its clock is the machine's."""
    return Store(
        engine, LedgerClock(), busy_seconds=busy_seconds, fault=fault, sync=sync, keys=keys
    )


def _call_notes(write: WriteTransaction) -> None:
    """Tell the copies in memory what was committed.

    A copy that misses it for want of memory would differ from the ledger until the next start, as a
    card that stays taken: the process is restarted.
    """
    try:
        for note in write._notes:
            note()
    except MemoryError:
        register.end_process("store")
        raise


def _roll_back(connection: sa.Connection) -> None:
    """End a transaction without a change.

    One that cannot be ended for want of memory keeps the database locked, or its log growing, for
    as long as anything refers to its connection: the process is restarted.
    """
    try:
        connection.rollback()
    except MemoryError:
        register.end_process("store")
        raise


def _begin_write(connection: sa.Connection) -> Any:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    return connection.execute(_TAKE_POOL).one()
