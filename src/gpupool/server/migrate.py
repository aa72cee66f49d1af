"""Make a database this version's: created, upgraded, or refused with the reason.

A new database gets the tables that the code has; the revisions run on an older one, and Alembic is
imported for that alone: they take half a second of a processor, and make the same tables
(tests/unit/server/test_migrate.py). A new SQLite database is built beside its place and moved there
whole, so an empty or half-made file is always damage and never a fresh start: a pool whose file was
truncated does not quietly begin anew.
"""

from __future__ import annotations

import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StateNewer, StateUnusable, StoreCorrupt
from gpupool.server.schema import metadata
from gpupool.store.database import connect, sqlite_url
from gpupool.store.failures import store_errors
from gpupool.store.tables import pool

MIGRATIONS = Path(__file__).parent / "migrations"
#: As Alembic makes it.
_VERSIONS = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def prepare_database(engine: sa.Engine, now_ns: int, pool_id: str) -> None:
    """Create or upgrade the database; nothing when it is current. After an error nothing changed.

    Args:
        pool_id: The name of a new pool.

    Raises:
        StateNewer: A newer version of gpupool wrote it.
        StoreCorrupt: It is damaged.
        StateUnusable: It cannot be read or made.
        StoreBusy: Another process holds it.
        DiskFull: There is no room.
    """
    path = _database_file(engine)
    if path is None:
        _upgrade_tables(engine, now_ns, pool_id)
        return
    with store_errors():
        _check_file(path)
        if not path.exists():
            _create_database(path, now_ns, pool_id)
        _upgrade_tables(engine, now_ns, pool_id)


def is_current(engine: sa.Engine) -> bool:
    """Return whether a database has this version's tables. Changes nothing."""
    return find_revision(engine) == known_revisions()[-1]


def find_revision(engine: sa.Engine) -> str | None:
    """Return the revision of a database; None where it has none. Changes nothing."""
    with store_errors(), engine.connect() as connection:
        return _read_revision(connection)


def known_revisions() -> list[str]:
    """Return the revisions this version can have, oldest first; their files are numbered."""
    return sorted(path.stem.split("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def _database_file(engine: sa.Engine) -> Path | None:
    name = engine.url.database
    return Path(name) if engine.dialect.name == "sqlite" and name and name != ":memory:" else None


def _check_file(path: Path) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateUnusable(
            f"{path}: {error.strerror}", hint="gpupool doctor checks the state directory"
        ) from error
    if size == 0:
        raise StoreCorrupt(
            f"{path} is empty; it was cut off, for gpupool makes no empty one",
            hint="put a saved copy in its place; to give up what the pool knew:  gpupool down "
            "--purge",
        )
    expected = _read_header_size(path)
    if size < expected:
        raise StoreCorrupt(
            f"{path} has {size} bytes and should have {expected}; it was cut off",
            hint="put a saved copy in its place; to give up what the pool knew:  gpupool down "
            "--purge",
        )


def _read_header_size(path: Path) -> int:
    """Return the size that a database's header states; 0 where it cannot be told.

    Beside a write-ahead log the header may be ahead of the file: a checkpoint writes the first page
    first. Page size and number of pages are at 16 and 28 of the header
    (https://sqlite.org/fileformat2.html#the_database_header).
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size > 0:
        return 0
    with open(path, "rb") as file:
        header = file.read(32)
    if len(header) < 32 or not header.startswith(b"SQLite format 3\0"):
        return 0
    # A page of 65536 bytes is written as 1: the field has two bytes.
    page_bytes = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65536 if page_bytes == 1 else page_bytes)


def _create_database(path: Path, now_ns: int, pool_id: str) -> None:
    try:
        beside = _empty_beside(path)
        _build_database(beside, now_ns, pool_id)
        _sync_file(beside)
        # The blocks before the name, then the directory: after a power cut it is whole or absent.
        os.replace(beside, path)
        _sync_file(path.parent)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise StateUnusable(
            f"cannot make {path}: {error.strerror}",
            hint="choose another --state-dir, or mend this one",
        ) from error


def _empty_beside(path: Path) -> Path:
    """Make a private file next to the database's place; remove what a killed start left there."""
    beside = path.with_name(path.name + ".new")
    for leftover in (
        beside,
        *(beside.with_name(beside.name + end) for end in ("-wal", "-shm", "-journal")),
    ):
        leftover.unlink(missing_ok=True)
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return beside


def _build_database(path: Path, now_ns: int, pool_id: str) -> None:
    engine = connect(sqlite_url(path))
    try:
        _upgrade_tables(engine, now_ns, pool_id)
        with engine.connect() as connection:
            # Everything into the one file that is moved; the log beside it stays behind.
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        engine.dispose()


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _upgrade_tables(engine: sa.Engine, now_ns: int, pool_id: str) -> None:
    with store_errors(), engine.connect() as connection:
        known = known_revisions()
        found = _read_revision(connection)
        if found not in (None, *known):
            raise StateNewer(
                f"the database has revision {found}, this gpupool knows {known[0]} to {known[-1]}",
                hint="install the newer gpupool again, or choose another --state-dir",
                found=found,
                newest_known=known[-1],
            )
        if found is None and sa.inspect(connection).has_table("pool"):
            raise StoreCorrupt(
                "the database does not say its revision", hint="put a saved copy in its place"
            )
        if found is None:
            _make_tables(connection, known[-1])
        elif found != known[-1]:
            run_revisions(connection)
        _ensure_pool(connection, now_ns, pool_id)


def _read_revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        connection.rollback()
        return None
    found = connection.execute(sa.select(_VERSIONS.c.version_num)).scalar_one_or_none()
    connection.rollback()
    return found


def _make_tables(connection: sa.Connection, revision: str) -> None:
    """Make the tables of a new database, at the newest revision, in one transaction."""
    if connection.dialect.name == "sqlite":
        connection.rollback()
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        for statement in _list_table_statements():
            connection.exec_driver_sql(statement)
    else:
        metadata.create_all(connection, checkfirst=False)
    _VERSIONS.create(connection, checkfirst=True)  # an empty one does not say a revision
    connection.execute(_VERSIONS.insert().values(version_num=revision))
    connection.commit()


@cache
def _list_table_statements() -> tuple[str, ...]:
    """List SQLite's statements for all tables; a process that makes many pools compiles them once."""
    statements: list[str] = []

    def note(statement: Any, *_parameters: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = sa.create_mock_engine("sqlite://", note)
    metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def run_revisions(connection: sa.Connection) -> None:
    """Run all missing revisions in one transaction."""
    # Only now: at an ordinary start it would be memory and time for nothing.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    if connection.dialect.name == "sqlite":
        # A table that is copied must not take its children along.
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
        connection.rollback()
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    command.upgrade(config, "head")
    connection.commit()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA foreign_keys=ON")
        connection.rollback()


def _ensure_pool(connection: sa.Connection, now_ns: int, pool_id: str) -> None:
    if connection.execute(sa.select(pool.c.id)).first() is None:
        row = {
            "id": 1,
            "pool_id": pool_id,
            "holder": "",
            "event_seq": 0,
            "generation": 1,
            "ledger_ns": now_ns,
        }
        connection.execute(pool.insert().values(row))
        connection.commit()
