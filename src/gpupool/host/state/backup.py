"""Backs up a pool's database as one SQLite file, and creates a pool from a backup.

The file has the same format for every database, so a pool can move between SQLite and PostgreSQL by
it. Jobs' logs and the agent's records stay where they are: a restored pool has never started a
process.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.clock import wall_ns
from gpupool.base.errors import BackupUnusable, GpupoolError, StateUnusable, StoreCorrupt
from gpupool.base.settings import PoolPaths
from gpupool.host.settings.options import HostOptions
from gpupool.host.settings.secret_key import find_key_file
from gpupool.host.state.backup_key import (
    BackupKey,
    find_source_keys,
    open_existing,
    place_keys,
)
from gpupool.host.state.directory import PoolMarker, StateDir, parse_marker, read_marker
from gpupool.server.migrate import find_revision, known_revisions, prepare_database
from gpupool.server.schema import metadata
from gpupool.store.database import connect, sqlite_url
from gpupool.store.engines import copy_database
from gpupool.store.failures import store_errors
from gpupool.store.tables import new_epoch

#: Table of the backup with the marker of the pool.
_TABLE = "gpupool_backup"
_HAS_POOL = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pool'"
#: Rows that are copied at once; bounds the memory of a large copy.
_AT_ONCE = 1000


def save_backup(options: HostOptions) -> int:
    """Write a backup of a pool, running or not, to `options.file`; returns the exit code."""
    return _run_printing(
        lambda: _write_backup(
            PoolPaths(options.state_dir), Path(str(options.file)), with_key=options.with_key
        )
    )


def restore_backup(options: HostOptions) -> int:
    """Create a pool in a new state directory from a backup or from a copied state directory.

    Returns:
        The exit code.
    """
    return _run_printing(lambda: _create_pool(Path(str(options.file)), options))


def _run_printing(work: Callable[[], str]) -> int:
    try:
        with store_errors():
            print(work())
    except GpupoolError as error:
        print(f"gpupool: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _write_backup(paths: PoolPaths, target: Path, *, with_key: bool) -> str:
    marker = read_marker(paths)
    if marker is None:
        raise StateUnusable(f"{paths.root} holds no pool", hint="name one with --state-dir")
    if target.exists():
        raise StateUnusable(
            f"{target} is there already; a backup replaces nothing", hint="give another name"
        )
    with tempfile.TemporaryDirectory(prefix=".gpupool-backup-", dir=target.parent) as folder:
        made = Path(folder) / "backup.db"
        if marker.store is None:
            _copy_file(paths.database, made)
        else:
            copy_rows(marker.store, sqlite_url(made), marker.pool_id)
        key = BackupKey.find(made, find_key_file(os.environ, paths), wanted=with_key)
        _write_description(made, marker, key.text)
        os.replace(made, target)
    size = target.stat().st_size
    return f"{target}: {size >> 10} KiB, pool {marker.pool_id}{key.describe()}"


def _write_description(path: Path, marker: PoolMarker, keys: str | None) -> None:
    """Add the marker and the keys, and flush all to disk as one private file."""
    text = json.dumps(asdict(replace(marker, pid=None)))
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute(f"CREATE TABLE {_TABLE} (marker TEXT NOT NULL, keys TEXT)")
        connection.execute(f"INSERT INTO {_TABLE} VALUES (?, ?)", (text, keys))
        # Here too, for a backup that an operator puts in the database's place by hand.
        _renew_epoch(connection)
        connection.commit()
    finally:
        connection.close()
    path.chmod(0o600)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _create_pool(source: Path, options: HostOptions) -> str:
    marker, database = _read_source(source)
    keys = find_source_keys(source)
    key_file = find_key_file(os.environ, PoolPaths(options.state_dir))
    state = StateDir(options.state_dir)
    if options.state_dir.exists() and any(options.state_dir.iterdir()):
        raise StateUnusable(
            f"{options.state_dir} is not empty", hint="name a new one with --state-dir"
        )
    try:
        state.open()
        made = replace(marker, store=options.store, begun=True, standby=False, pid=None)
        with tempfile.TemporaryDirectory(prefix="gpupool-restore-") as folder:
            copy = Path(folder) / "copy.db"
            _copy_file(database, copy)
            _make_own(copy)
            if made.store is None:
                _copy_file(copy, state.paths.database)
            else:
                _upgrade(copy, made.pool_id)
                copy_rows(sqlite_url(copy), made.store, made.pool_id)
            lacks = place_keys(copy, keys, key_file)
        state.write_marker(made)
    except BaseException:
        # The restore can be repeated with the same directory.
        state.abandon_new_pool()
        raise
    finally:
        state.close()
    return (
        f"pool {made.pool_id} is in {options.state_dir}{lacks}; start it:  "
        f"gpupool up --state-dir {options.state_dir}"
    )


def _read_source(source: Path) -> tuple[PoolMarker, Path]:
    if source.is_dir():
        found = read_marker(PoolPaths(source))
        if found is None or found.store is not None:
            why = "holds no pool" if found is None else "keeps its database in PostgreSQL"
            raise BackupUnusable(
                f"{source} {why}", hint="make a backup of it:  gpupool backup FILE"
            )
        return found, PoolPaths(source).database
    try:
        connection = open_existing(source, "ro")
        try:
            (text,) = connection.execute(f"SELECT marker FROM {_TABLE}").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise BackupUnusable(
            f"{source} is no backup of a pool: {error}", hint="gpupool backup FILE  makes one"
        ) from error
    return parse_marker(json.loads(text)), source


def _make_own(path: Path) -> None:
    """Turn the copy into a pool's own database, with an event log of its own."""
    connection = sqlite3.connect(path)
    try:
        # Else the keys of the backup stay in free pages, and later backups without them have them.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        _renew_epoch(connection)
        _end_logins(connection)
        connection.commit()
    finally:
        connection.close()


def _end_logins(connection: sqlite3.Connection) -> None:
    """Forget the logins of browsers: one that ended after the backup must not be valid again."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in found}  # a backup of an earlier version has fewer
    if {"sessions", "signon_logins"} <= tables:
        connection.execute("DELETE FROM signon_logins WHERE login_id IN (SELECT id FROM sessions)")
    for table in ("sessions", "signon_attempts"):
        if table in tables:
            connection.execute(f"DELETE FROM {table}")


def _renew_epoch(connection: sqlite3.Connection) -> None:
    """Give the event log a new id, so that clients do not continue the log of the old pool."""
    # A database of an earlier version gets its first id when it is upgraded.
    columns = connection.execute("SELECT name FROM pragma_table_info('pool')").fetchall()
    if ("event_epoch",) in columns:
        connection.execute("UPDATE pool SET event_epoch = ?", (new_epoch(),))


def _upgrade(path: Path, pool_id: str) -> None:
    """Make the copy of an earlier version's database one of this version."""
    engine = connect(sqlite_url(path))
    try:
        prepare_database(engine, wall_ns(), pool_id)
    finally:
        engine.dispose()


def _copy_file(source: Path, target: Path) -> None:
    """Make a consistent copy, also of a database in use. Raises StoreCorrupt where it has no pool."""
    if not source.exists():
        raise StoreCorrupt(
            f"{source} is missing: the jobs and the books of the pool were in it",
            hint="put a saved copy in its place",
        )
    # Not made where it goes away meanwhile: an empty one would be taken for the pool's.
    connection = open_existing(source, "rw")
    try:
        if connection.execute(_HAS_POOL).fetchone() is None:
            raise StoreCorrupt(
                f"{source} holds no pool: it was cut off or replaced",
                hint="put a saved copy in its place",
            )
        copy_database(connection, target)
    finally:
        connection.close()


def copy_rows(source: str, target: str, pool_id: str) -> None:
    """Copy every row of every table from one database of this version to an empty one.

    Raises StateUnusable where the first is of another version, and BackupUnusable.
    """
    reading = connect(source)
    writing = connect(target)
    try:
        _check_version(reading)
        prepare_database(writing, wall_ns(), pool_id)
        with reading.connect() as old, writing.begin() as new:
            if reading.dialect.name == "postgresql":
                old.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            if new.execute(sa.select(metadata.tables["pool"].c.event_seq)).scalar_one():
                raise BackupUnusable(
                    "the database holds a pool already", hint="give an empty one with --store"
                )
            new.execute(metadata.tables["pool"].delete())
            for table in metadata.sorted_tables:
                _copy_table(old, new, table)
    finally:
        reading.dispose()
        writing.dispose()


def _check_version(engine: sa.Engine) -> None:
    found = find_revision(engine)
    if found != known_revisions()[-1]:
        raise StateUnusable(
            f"the database has revision {found}, this gpupool copies {known_revisions()[-1]}",
            hint="use the gpupool of the pool's server; an older database is upgraded by  gpupool restart",
        )


def _copy_table(old: sa.Connection, new: sa.Connection, table: sa.Table) -> None:
    # A row may name a later one of its own table, as a cohort its parent: they are joined at the end.
    inner = [one for one in table.columns if _names_own_table(one)]
    without = dict.fromkeys([one.name for one in inner])
    found = old.execution_options(stream_results=True).execute(sa.select(table))
    while rows := found.mappings().fetchmany(_AT_ONCE):
        new.execute(table.insert(), [{**row, **without} for row in rows])
    for link in inner:
        _copy_links(old, new, link)
    column: Any = table.autoincrement_column
    if new.dialect.name == "postgresql" and column is not None:
        sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
        newest = sa.select(sa.func.max(column)).scalar_subquery()
        new.execute(
            sa.select(sa.func.setval(sequence, newest)).where(
                newest.is_not(None), sequence.is_not(None)
            )
        )


def _names_own_table(column: sa.Column[Any]) -> bool:
    return any(key.column.table is column.table for key in column.foreign_keys)


def _copy_links(old: sa.Connection, new: sa.Connection, column: sa.Column[Any]) -> None:
    """Copy a column that names rows of its own table, which are all there."""
    (key,) = column.table.primary_key.columns
    links = sa.select(key.label("row_key"), column.label("link")).where(column.is_not(None))
    join = column.table.update().where(key == sa.bindparam("row_key"))
    join = join.values({column: sa.bindparam("link")})
    found = old.execution_options(stream_results=True).execute(links)
    while rows := found.mappings().fetchmany(_AT_ONCE):
        new.execute(join, [dict(row) for row in rows])
