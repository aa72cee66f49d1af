"""Backups and restored pools have event logs of their own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gpupool.base.ids import new_id
from gpupool.host.settings.options import HostOptions
from gpupool.host.state.backup import restore_backup, save_backup
from gpupool.host.state.directory import PoolMarker, StateDir
from gpupool.server.migrate import prepare_database
from gpupool.store.database import connect, sqlite_url


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """The state directory of a pool that does not run."""
    root = tmp_path / "original"
    state = StateDir(root)
    state.open()
    pool_id = new_id("p")
    engine = connect(sqlite_url(state.paths.database))
    prepare_database(engine, 1, pool_id)
    engine.dispose()
    state.write_marker(PoolMarker(pool_id=pool_id, begun=True))
    state.close()
    return root


def epoch_of(database: Path) -> str:
    connection = sqlite3.connect(database)
    try:
        return str(connection.execute("SELECT event_epoch FROM pool").fetchone()[0])
    finally:
        connection.close()


def test_a_backup_and_each_restored_pool_have_an_epoch_of_their_own(
    tmp_path: Path, original: Path
) -> None:
    backup = tmp_path / "monday"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == 0
    databases = [original / "gpupool.db", backup]
    for name in ("restored", "restored-again"):
        assert restore_backup(HostOptions(state_dir=tmp_path / name, file=backup)) == 0
        databases.append(tmp_path / name / "gpupool.db")
    epochs = [epoch_of(database) for database in databases]
    assert len(set(epochs)) == len(epochs) == 4
    assert "" not in epochs


def test_a_copied_state_directory_gets_a_new_epoch_when_it_is_restored(
    tmp_path: Path, original: Path
) -> None:
    before = epoch_of(original / "gpupool.db")
    assert restore_backup(HostOptions(state_dir=tmp_path / "moved", file=original)) == 0
    assert epoch_of(tmp_path / "moved" / "gpupool.db") != before
    assert epoch_of(original / "gpupool.db") == before


def test_a_backup_of_an_earlier_version_is_restored_without_an_epoch(
    tmp_path: Path, original: Path
) -> None:
    connection = sqlite3.connect(original / "gpupool.db")
    connection.execute("ALTER TABLE pool DROP COLUMN event_epoch")
    connection.commit()
    connection.close()
    assert restore_backup(HostOptions(state_dir=tmp_path / "restored", file=original)) == 0
