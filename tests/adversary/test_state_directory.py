"""Hostile and careless use of a state directory: its database removed, copies of it started."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool

pytestmark = pytest.mark.adversary


@pytest.fixture
def pool(tmp_path: Path) -> RealPool:
    return RealPool(tmp_path / "pool", "1xT4")


def server_log(pool: RealPool) -> str:
    return (pool.state_dir / "server.log").read_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_database_lost_under_a_pool_ends_the_server_and_is_saved(
    pool: RealPool, how: str, tmp_path: Path
) -> None:
    database, saved = pool.state_dir / "gpupool.db", pool.state_dir / "gpupool.db.rescued"
    other = tmp_path / "other.db"
    sqlite3.connect(other).executescript("PRAGMA journal_mode=WAL; CREATE TABLE strange (x);")
    with pool:
        pool.do("submit", "--gpu", "0.3", "--name", "goes-on", "--", "sleep", "600")
        pool.until_state("goes-on", "running")
        server = Path(f"/proc/{pool.server_pid()}")
        if how == "removed":
            database.unlink()
        else:
            other.replace(database)
        pool.until(lambda: not server.exists(), "the server's end")
        pool.until(
            lambda: "GP-5023" in server_log(pool) and saved.exists(), "the reason in the log"
        )
        for name in ("gpupool.db", "gpupool.db-wal", "gpupool.db-shm"):
            (pool.state_dir / name).unlink(missing_ok=True)
        saved.rename(database)
        pool.up()
        assert pool.until_state("goes-on", "running")["exit_code"] is None


def test_a_copied_state_directory_ends_none_of_the_originals_jobs(
    pool: RealPool, tmp_path: Path
) -> None:
    copy = RealPool(tmp_path / "copy", "1xT4")
    with pool:
        pool.do("submit", "--gpu", "0.3", "--name", "mine", "--", "sleep", "600")
        pool.until_state("mine", "running")
        subprocess.run(["cp", "-a", str(pool.state_dir), str(copy.state_dir)], check=True)
        refused = copy.run("up", "-d")
        assert refused.returncode == 6, refused
        assert (
            f"GP-4005: {copy.state_dir} is a copy of the pool at {pool.state_dir}" in refused.stderr
        ), refused
        purged = copy.do("down", "--purge", "--yes")
        assert "no job was ended" in purged, purged
        assert not copy.state_dir.exists()
        assert pool.job("mine")["state"] == "running"
