"""Failures of a database are told by their numbers and read the same on both databases."""

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from gpupool.base.errors import (
    DiskFull,
    GpupoolError,
    ServiceUnavailable,
    StateUnusable,
    StoreBusy,
    StoreCorrupt,
)
from gpupool.server.migrate import prepare_database
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.failures import store_errors, translate_error
from gpupool.store.tables import events


def sqlite_error(code: int, text: str = "said by sqlite") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


class PostgresError(Exception):
    def __init__(self, sqlstate: str, text: str = "said by postgres") -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, DiskFull),
        (sqlite3.SQLITE_IOERR_SHMSIZE, DiskFull),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, StoreBusy),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreCorrupt),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        (sqlite3.SQLITE_READONLY_DBMOVED, StateUnusable),
        (sqlite3.SQLITE_CANTOPEN, StateUnusable),
        (sqlite3.SQLITE_IOERR_READ, StateUnusable),
    ],
)
def test_sqlite_says_it_by_result_code(code: int, kind: type[GpupoolError]) -> None:
    assert type(translate_error(sqlite_error(code))) is kind


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("53100", DiskFull),
        ("55P03", StoreBusy),
        ("XX001", StoreCorrupt),
        ("57P01", ServiceUnavailable),
        ("25P03", ServiceUnavailable),
        ("08006", ServiceUnavailable),
    ],
)
def test_postgresql_says_it_by_sqlstate(state: str, kind: type[GpupoolError]) -> None:
    wrapped = OperationalError("SELECT 1", {}, PostgresError(state))
    assert type(translate_error(wrapped)) is kind


def test_words_that_a_user_typed_do_not_look_like_a_failure() -> None:
    text = "UNIQUE constraint failed: the disk is full, locked and not a database"
    assert translate_error(sqlite_error(sqlite3.SQLITE_CONSTRAINT_UNIQUE, text)) is None
    assert translate_error(OperationalError("INSERT", {}, PostgresError("23505", text))) is None


def test_what_the_database_does_not_say_passes_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), store_errors():
        _ = 1 / 0


def test_a_server_that_is_not_there_does_not_answer() -> None:
    engine = connect("postgresql://nobody@/none?host=/nonexistent")
    with (
        pytest.raises(ServiceUnavailable, match="does not answer") as refusal,
        store_errors(),
        engine.connect(),
    ):
        pass
    assert refusal.value.code == "GP-5000"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this root may not mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Take every block that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0
    return filler


def write_much(store: Store) -> None:
    with store.write() as write:
        for n in range(200):
            write.event("job.ended", f"j-{n}", data={"text": "x" * 4000})


@pytest.mark.root
def test_a_full_disk_is_said_and_changes_nothing_and_freeing_it_is_enough(small_disk: Path) -> None:
    engine = connect(sqlite_url(small_disk / "gpupool.db"))
    prepare_database(engine, time.time_ns(), "p-test")
    store = open_store(engine, "here")
    filler = fill(small_disk)
    with pytest.raises(DiskFull, match="nothing was changed"):
        write_much(store)
    with store.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one() == 0
    filler.unlink()
    write_much(store)
    with store.read() as connection:
        assert connection.execute(sa.select(sa.func.max(events.c.seq))).scalar_one() == 200
    engine.dispose()


@pytest.mark.root
def test_a_new_pool_on_a_full_disk_is_refused_and_leaves_no_half_database(small_disk: Path) -> None:
    filler = fill(small_disk)
    path = small_disk / "gpupool.db"
    with pytest.raises(DiskFull):
        prepare_database(connect(sqlite_url(path)), time.time_ns(), "p-test")
    assert not path.exists()
    filler.unlink()
    prepare_database(connect(sqlite_url(path)), time.time_ns(), "p-test")
