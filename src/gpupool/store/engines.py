"""Connections to SQLite or PostgreSQL: how they are made, and what is set on each."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.durable import sync_directory

#: How long a writer waits for its turn before its request is answered with StoreBusy.
BUSY_SECONDS = 10.0
CONNECTIONS = 8
#: Kept open, and opened beside them under load: more than the server has threads.
SPARE_CONNECTIONS = 40


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


#: A connection to a machine that has gone is given up after these times, not after the kernel's
#: quarter of an hour.
_POSTGRES: dict[str, Any] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 5000,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}


def is_postgres(url: str | None) -> bool:
    return url is not None and url.startswith(("postgresql://", "postgresql+"))


def _with_driver(url: str) -> str:
    return (
        "postgresql+psycopg://" + url.removeprefix("postgresql://")
        if url.startswith("postgresql://")
        else url
    )


def connect(
    url: str, *, busy_seconds: float = BUSY_SECONDS, sync: str = "group", name: str = "gpupool"
) -> sa.Engine:
    """Make an engine on `sqlite:///PATH` or `postgresql://…`; opens nothing yet.

    Args:
        busy_seconds: How long a lock or a connection is waited for, before StoreBusy.
        sync: One of faults.SYNCS.
        name: What PostgreSQL calls the sessions.
    """
    url = _with_driver(url)
    sizes = {
        "pool_size": CONNECTIONS,
        "max_overflow": SPARE_CONNECTIONS,
        "pool_timeout": busy_seconds,
    }
    if not url.startswith("sqlite"):
        given = _POSTGRES | {
            "options": f"-c lock_timeout={int(busy_seconds * 1000)}",
            "application_name": name,
        }
        # pool_pre_ping: a connection that a restart of PostgreSQL cut is replaced, not handed out.
        return sa.create_engine(
            url, json_serializer=_compact_json, pool_pre_ping=True, connect_args=given, **sizes
        )
    arguments = {"timeout": busy_seconds, "check_same_thread": False}
    engine = sa.create_engine(
        url, json_serializer=_compact_json, connect_args=arguments, poolclass=sa.QueuePool, **sizes
    )
    sa.event.listen(engine, "connect", _prepare_each if sync == "each" else _prepare_sqlite)
    return engine


# Made once: json.dumps makes one for each call with separators, and a transaction writes thousands
# of values.
_compact_json = json.JSONEncoder(separators=(",", ":")).encode


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # NORMAL flushes the log before a checkpoint and not at each commit: that is done for many
    # commits at once by store.durability, before any of them is acknowledged.
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


def hold_log_open(engine: sa.Engine) -> sqlite3.Connection | None:
    """Open a connection that keeps the log; None where there is no log that is ours to flush."""
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
    """Copy an SQLite database as it is at one instant into one private file that is on disk."""
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


#: Key of the advisory lock under which a PostgreSQL database is made or upgraded: "gpupool" in
#: ASCII.
_PREPARING = 0x677075706F6F6C


@contextmanager
def preparing_alone(engine: sa.Engine) -> Iterator[None]:
    """Let one server at a time make or upgrade a PostgreSQL database.

    On SQLite the directory's lock does this.
    """
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.connect() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_lock(_PREPARING)))
        connection.commit()  # the lock is the session's, and no transaction stays open meanwhile
        try:
            yield
        finally:
            connection.execute(sa.select(sa.func.pg_advisory_unlock(_PREPARING)))
            connection.commit()


def lease_engine(url: str, name: str) -> sa.Engine:
    """Make an engine for short statements on a connection of their own, for a lease.

    Nothing waits longer than a part of a lease.
    """
    arguments = _POSTGRES | {
        "connect_timeout": 2,
        "tcp_user_timeout": 1000,
        "application_name": name,
    }
    return sa.create_engine(
        _with_driver(url),
        poolclass=sa.NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={**arguments, "options": "-c statement_timeout=1000"},
    )
