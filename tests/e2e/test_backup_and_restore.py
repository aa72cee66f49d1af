"""docs/how-to/back-up-and-restore.md, rehearsed: every command of the page is run as it stands
there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool

PAGE = Path(__file__).parents[2] / "docs/how-to/back-up-and-restore.md"


@pytest.fixture
def places(tmp_path: Path, postgres_url: str) -> dict[str, str]:
    """The page's places, each as it is here."""
    return {
        "/backup": str(tmp_path),
        "/safe/monday": str(tmp_path / "with-key"),
        "/srv/restored": str(tmp_path / "restored"),
        "/srv/moved": str(tmp_path / "moved"),
        "/srv/on-postgresql": str(tmp_path / "on-postgresql"),
        "/mnt/copied-state": str(tmp_path / "pool"),
        "postgresql://pool@db/gpupool": postgres_url.replace("+psycopg", ""),
    }


def commands(places: dict[str, str]) -> dict[str, list[str]]:
    """The page's commands by their first two words' meaning, in their order."""
    lines = re.findall(r"^\$ gpupool (.*)$", PAGE.read_text(), re.M)
    found = []
    for line in lines:
        for name, here in places.items():
            line = line.replace(name, here)
        found.append(shlex.split(line))
    names = [
        "backup",
        "backup with its key",
        "restore",
        "up",
        "restore copy",
        "backup again",
        "down",
        "restore to postgresql",
        "restart",
    ]
    return dict(zip(names, found, strict=True))


def books(pool: RealPool) -> tuple[object, ...]:
    tenants = sorted(tenant["name"] for tenant in pool.json("tenant", "list"))
    ended = sorted(
        (job["name"], job["state"])
        for job in pool.json("ps", "--all")
        if job["name"].startswith("ended")
    )
    return tenants, ended


def test_every_command_of_the_page_does_what_the_page_says(
    tmp_path: Path, places: dict[str, str]
) -> None:
    page = commands(places)
    pool, restored = RealPool(tmp_path / "pool", "1xT4"), RealPool(tmp_path / "restored")
    with pool:
        pool.do("tenant", "create", "red")
        pool.do("run", "--gpu", "0.1", "--name", "ended-well", "--", "true")
        pool.do("submit", "--gpu", "0.2", "--name", "goes-on", "--", "sleep", "600")
        pool.until_state("goes-on", "running")
        before = books(pool)
        pool.do(*page["backup"])
        assert (tmp_path / "monday").stat().st_mode & 0o777 == 0o600
        assert pool.run(*page["backup"]).returncode == 7  # it is there already
        # A first secret makes the key.
        pool.do("notify", "allow", "h.example")
        pool.do("notify", "add", "ops", "--webhook", "https://h.example/x", "--on", "job-ended")
        pool.do(*page["backup with its key"])
        assert (tmp_path / "with-key").stat().st_mode & 0o777 == 0o600
        pid = pool.server_pid()
        pool.do(*page["restart"])
        assert pool.server_pid() != pid
        assert pool.job("goes-on")["state"] == "running"

        pool.do(*page["restore"])
        pool.do(*page["up"])
        try:
            assert books(restored) == before
            assert restored.job("goes-on")["state"] == "lost"
            assert pool.job("goes-on")["state"] == "running"
            restored.do("run", "--gpu", "0.1", "--name", "after", "--", "true")
        finally:
            restored.do("down", "--purge", "--yes")
        assert pool.job("goes-on")["state"] == "running"
        _move(pool, page, before, tmp_path)


def _move(
    pool: RealPool, page: dict[str, list[str]], before: tuple[object, ...], tmp_path: Path
) -> None:
    pool.do(*page["backup again"])
    pool.do(*page["down"], "--yes")
    pool.do(*page["restore to postgresql"])
    moved = RealPool(tmp_path / "on-postgresql")
    moved.up()
    try:
        assert books(moved) == before
        moved.do("run", "--gpu", "0.1", "--name", "ended-there", "--", "true")
        after = books(moved)
        moved.do("backup", str(tmp_path / "back"))
    finally:
        moved.do("down", "--purge", "--yes")
    moved.do("restore", str(tmp_path / "back"), "--state-dir", str(tmp_path / "again"))
    again = RealPool(tmp_path / "again")
    again.up()
    try:
        assert books(again) == after
    finally:
        again.do("down", "--purge", "--yes")
    pool.do(*page["restore copy"])
    assert (tmp_path / "moved" / "pool.json").exists()
    pool.up()
