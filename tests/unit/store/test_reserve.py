"""Space kept for freeing: allocated ahead of the log, and given to the next server."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.store import reserve as reserve_module
from gpupool.store.reserve import INDEX_BYTES, DiskReserve, use_parked

LOG_BYTES, DATABASE_BYTES = 1 << 20, 1 << 18


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A database in WAL mode, on a disk for which a small reserve is kept."""
    small = (LOG_BYTES, DATABASE_BYTES)
    monkeypatch.setattr(reserve_module, "reserve_bytes", lambda _size: small)
    path = tmp_path / "pool.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE one (number INTEGER)")
    connection.commit()
    yield path
    connection.close()


def measure_blocks(path: Path) -> int:
    return os.stat(path).st_blocks * 512


def refuse_blocks(_descriptor: int, _until: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_reserve_is_behind_the_end_of_the_files_and_changes_no_size(database: Path) -> None:
    log = Path(f"{database}-wal")
    sizes = [path.stat().st_size for path in (database, log)]
    kept = DiskReserve(database)
    assert [path.stat().st_size for path in (database, log)] == sizes
    assert measure_blocks(log) >= LOG_BYTES
    assert measure_blocks(database) >= sizes[0] + DATABASE_BYTES
    assert Path(f"{database}-shm").stat().st_size >= INDEX_BYTES
    assert kept.has_room()
    kept.close()


def test_a_full_disk_is_known_until_the_reserve_is_there_again(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DiskReserve(database)
    kept._ahead = 0
    with monkeypatch.context() as patch:
        patch.setattr(reserve_module, "_allocate_ahead", refuse_blocks)
        assert not kept.refill()
        assert not kept.has_room()
    assert kept.full
    assert kept.has_room()
    assert not kept.full
    kept.close()


def test_a_disk_with_less_than_the_margin_free_has_no_room(database: Path) -> None:
    kept = DiskReserve(database)
    kept._margin = 1 << 62
    assert not kept.has_room()
    kept.close()


def test_a_reserve_that_is_there_is_not_allocated_again(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DiskReserve(database)
    monkeypatch.setattr(reserve_module, "_allocate_ahead", refuse_blocks)
    assert kept.refill()
    assert not kept.full
    kept.close()


def test_the_blocks_are_parked_between_two_servers(database: Path) -> None:
    parked = Path(f"{database}.reserve")
    DiskReserve(database).close()
    assert measure_blocks(parked) >= LOG_BYTES
    assert os.stat(parked).st_mode & 0o777 == 0o600
    DiskReserve(database).close()
    assert parked.exists()


def test_parked_blocks_are_given_up_only_to_a_disk_that_is_full(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parked = Path(f"{database}.reserve")
    parked.write_bytes(b"")
    use_parked(database)
    assert parked.exists()
    monkeypatch.setattr(reserve_module, "reserve_bytes", lambda _size: (0, 1 << 62))
    use_parked(database)
    use_parked(database)
    assert not parked.exists()


def test_the_reserve_of_a_database_is_behind_its_end_after_each_checkpoint(database: Path) -> None:
    """Before, the first checkpoint cut it off: SQLite truncates the file to its own size."""
    kept = DiskReserve(database)
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_autocheckpoint=1")
    for number in range(3):
        connection.execute("INSERT INTO one VALUES (?)", (number,))
        connection.commit()
        assert kept.refill()
        assert measure_blocks(database) >= database.stat().st_size + DATABASE_BYTES
    connection.close()
    kept.close()
