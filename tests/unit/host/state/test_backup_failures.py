"""A backup or a restore that fails leaves both directories as they were."""

from __future__ import annotations

import shutil
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


def test_a_backup_of_a_pool_whose_database_is_lost_makes_no_empty_one(
    tmp_path: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (original / "gpupool.db").unlink()
    assert save_backup(HostOptions(state_dir=original, file=tmp_path / "monday")) != 0
    assert str(original / "gpupool.db") in capsys.readouterr().err
    assert not (original / "gpupool.db").exists()
    assert not (tmp_path / "monday").exists()


def test_a_restore_from_a_directory_without_its_database_fails(
    tmp_path: Path, original: Path
) -> None:
    (original / "gpupool.db").unlink()
    assert restore_backup(HostOptions(state_dir=tmp_path / "moved", file=original)) != 0
    assert not (original / "gpupool.db").exists()
    assert not (tmp_path / "moved").exists()


def test_a_restore_that_failed_can_be_repeated(tmp_path: Path, original: Path) -> None:
    backup = tmp_path / "monday"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == 0
    whole = shutil.copy(backup, tmp_path / "whole")
    with backup.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 65536)
    target = HostOptions(state_dir=tmp_path / "moved", file=backup)
    assert restore_backup(target) != 0
    shutil.copy(whole, backup)
    assert restore_backup(target) == 0


def test_a_backup_is_found_whatever_its_file_is_called(tmp_path: Path, original: Path) -> None:
    backup = tmp_path / "pool#1?mode=100%.db"
    assert save_backup(HostOptions(state_dir=original, file=backup)) == 0
    assert restore_backup(HostOptions(state_dir=tmp_path / "moved", file=backup)) == 0
