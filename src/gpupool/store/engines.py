"""Connections to SQLite or PostgreSQL: how they are made, and what is set on each."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.durable import sync_directory
from gpupool.base.errors import PoolHeldElsewhere

BUSY_SECONDS = 10.0
CONNECTIONS, SPARE_CONNECTIONS = 8, 40
"""Kept open, and opened beside them under load: more than the server has threads."""


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def connect(url: str, *, busy_seconds: float = BUSY_SECONDS, sync: str = "group") -> sa.Engine:
    """An engine on `sqlite:///PATH` or `postgresql://…`; opens nothing yet.

    Who waits for a lock or a connection longer than `busy_seconds` gets StoreBusy. `sync` is one of faults.SYNCS.
    """
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    sizes = {"pool_size": CONNECTIONS, "max_overflow": SPARE_CONNECTIONS, "pool_timeout": busy_seconds}
    if not url.startswith("sqlite"):
        timeout = {"options": f"-c lock_timeout={int(busy_seconds * 1000)}"}
        return sa.create_engine(url, json_serializer=_compact_json, pool_pre_ping=True, connect_args=timeout, **sizes)
    arguments = {"timeout": busy_seconds, "check_same_thread": False}
    engine = sa.create_engine(
        url, json_serializer=_compact_json, connect_args=arguments, poolclass=sa.QueuePool, **sizes
    )
    sa.event.listen(engine, "connect", _prepare_each if sync == "each" else _prepare_sqlite)
    return engine


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # NORMAL flushes the log before a checkpoint and not at each commit: that is done for many commits at once
    # by store.durability, before any of them is acknowledged.
    connection.isolation_level = None  # we begin transactions ourselves
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
        "wal_autocheckpoint=2000",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_each(connection: sqlite3.Connection, record: Any) -> None:
    _prepare_sqlite(connection, record)
    connection.execute("PRAGMA synchronous=FULL")


def anchored(engine: sa.Engine) -> sqlite3.Connection | None:
    """A connection that has the log open; None where there is no log that is ours to flush."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name == ":memory:":
        return None
    connection = sqlite3.connect(name, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def copy_database(source: sqlite3.Connection, path: Path) -> None:
    """A copy of an SQLite database as it is at one instant, in one private file that is on disk when this returns."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    target = sqlite3.connect(beside)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")  # one file, not three
    finally:
        target.close()
    with open(beside, "rb") as file:
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_directory(path.parent)


#: Key of the advisory lock that the one server of a pool holds in its PostgreSQL database: "gpupool" in ASCII.
_POOL_LOCK = 0x677075706F6F6C
#: Seconds after which PostgreSQL gives up the session, and with it the lock, of a server whose machine is gone.
_SILENT_SECONDS = 5


def hold_alone(engine: sa.Engine) -> sa.Connection | None:
    """Hold a PostgreSQL database as its one server, for as long as the connection is open; None on SQLite.

    The lock ends with the session, so a killed server's is free at once. On SQLite the state directory's lock does
    this. Raises PoolHeldElsewhere.
    """
    if engine.dialect.name != "postgresql":
        return None
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        for setting in ("tcp_keepalives_idle", "tcp_keepalives_interval"):
            connection.exec_driver_sql(f"SET {setting} = {_SILENT_SECONDS // 3 or 1}")
        connection.exec_driver_sql("SET tcp_keepalives_count = 2")
        if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(_POOL_LOCK))).scalar_one():
            raise PoolHeldElsewhere(
                f"another server holds the database {engine.url.render_as_string(hide_password=True)}",
                hint="gpupool doctor  on its machine shows it;  gpupool down  there stops it",
            )
    except BaseException:
        connection.close()
        raise
    return connection
