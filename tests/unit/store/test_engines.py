"""Connections to SQLite and PostgreSQL: what is set on each, and copies of a database."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from gpupool.store.engines import connect, copy_database, hold_log_open, is_postgres, sqlite_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://pool@db/gpupool", True),
        ("postgresql+psycopg://db/gpupool", True),
        ("sqlite:////var/lib/gpupool.db", False),
        ("postgres", False),
        (None, False),
    ],
)
def test_is_postgres_goes_by_the_scheme_of_the_url(url: str | None, expected: bool) -> None:
    assert is_postgres(url) is expected


def test_a_postgresql_url_without_a_driver_gets_the_one_that_is_shipped() -> None:
    assert connect("postgresql://pool@db/gpupool").url.drivername == "postgresql+psycopg"


@pytest.mark.parametrize(("sync", "synchronous"), [("group", 1), ("each", 2)])
def test_a_sqlite_connection_logs_ahead_and_flushes_as_it_is_told(
    tmp_path: Path, sync: str, synchronous: int
) -> None:
    engine = connect(sqlite_url(tmp_path / "pool.db"), sync=sync)
    with engine.connect() as connection:
        names = ("journal_mode", "synchronous", "foreign_keys")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]
    engine.dispose()
    assert found == ["wal", synchronous, 1]


def test_the_log_is_held_open_for_a_file_and_not_for_memory(tmp_path: Path) -> None:
    assert hold_log_open(connect("sqlite://")) is None
    engine = connect(sqlite_url(tmp_path / "pool.db"))
    held = hold_log_open(engine)
    assert held is not None
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE one (number INTEGER)")
    engine.dispose()
    assert (tmp_path / "pool.db-wal").exists(), "the last connection of the engine has closed"
    held.close()


def test_a_copy_is_one_private_file_that_is_whole(tmp_path: Path) -> None:
    source = sqlite3.connect(tmp_path / "pool.db")
    source.execute("PRAGMA journal_mode=WAL")
    source.execute("CREATE TABLE one (number INTEGER)")
    source.execute("INSERT INTO one VALUES (7)")
    source.commit()
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    target.with_name("copy.db.new").write_bytes(b"left by a copy that was killed")
    copy_database(source, target)
    source.execute("INSERT INTO one VALUES (8)")
    source.commit()
    source.close()
    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    copy = sqlite3.connect(target)
    assert copy.execute("SELECT number FROM one").fetchall() == [(7,)]
    copy.close()
