"""Bad weather: a full disk, a locked, damaged or newer database, a clock set back, a state that is
gone, hasty starts.

Each is answered with a public code and the next thing to type, changes nothing, and passes when its
cause does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import DiskFull, PoolNotRunning, StoreBusy
from tests.faults import invariants
from tests.faults.pool import GPUPOOL, FaultPool, environment, until
from tests.support.processes import die_with_owner

pytestmark = [pytest.mark.root, pytest.mark.adversary]
HOUR_NS = 3600 * 10**9
MIB = 1 << 20


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB, mounted for this test alone."""
    point = tmp_path / "disk"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


def body(pool: FaultPool, script: str, **more: Any) -> dict[str, Any]:
    launch = {
        "argv": ["sh", "-c", script],
        "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)},
    }
    return {"shape": {"gpu_milli": 100, "memory_bytes": MIB}, "launch": launch, **more}


def submit(pool: FaultPool, script: str, **more: Any) -> dict[str, Any]:
    with pool.api() as api:
        made: dict[str, Any] = api.request("POST", "jobs", body(pool, script, **more))["first"]
    return made


def state_of(pool: FaultPool, job: str) -> str:
    return str(pool.rows("SELECT state FROM jobs WHERE public_id = ?", job)[0]["state"])


def await_state(pool: FaultPool, job: str, state: str) -> None:
    until(lambda: state_of(pool, job) == state, f"job {job} being {state}")


def assert_books_close(pool: FaultPool) -> None:
    with pool.api() as api:
        report = api.request("GET", "report", query={"since": "1d"})
    assert [*invariants.books(pool), *invariants.report_closes(report)] == []


def refused_up(pool: FaultPool) -> str:
    """What `gpupool up -d` says when it must not start."""
    done = pool.cli("up", "-d")
    assert done.returncode != 0, done.stdout
    assert pool.server_pid() is None
    assert "Traceback" not in done.stderr
    return done.stderr


# Disk -------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_and_changes_nothing_and_is_over_when_it_is_over(
    small_disk: Path,
) -> None:
    with FaultPool(small_disk / "state", sim="1xT4") as pool:
        pool.up()
        go = small_disk.parent / "go"
        running = submit(pool, f"until test -e {go}; do sleep 0.05; done; exit 7")["id"]
        await_state(pool, running, "running")
        fill(small_disk / "filler")
        with pytest.raises(DiskFull, match="full"):
            submit_until_refused(pool)
        jobs = pool.rows("SELECT count(*) n FROM jobs")[0]["n"]
        assert pool.cli("ps").returncode == 0
        go.touch()  # it ends while nobody can write that down
        until(
            lambda: not [one for one in pool.supervisors() if one.job == running],
            "the supervisor's end",
        )
        (small_disk / "filler").unlink()
        await_state(pool, running, "failed")
        assert (
            pool.rows("SELECT exit_code FROM jobs WHERE public_id = ?", running)[0]["exit_code"]
            == 7
        )
        assert pool.rows("SELECT count(*) n FROM jobs")[0]["n"] == jobs
        await_state(pool, submit(pool, "true")["id"], "done")
        until(lambda: not pool.supervisors(), "every job's end")
        assert_books_close(pool)
        pool.down()


def submit_until_refused(pool: FaultPool) -> None:
    for _ in range(2000):
        submit(pool, "true")


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while file.write(b"\0" * size):
                    continue
            except OSError:
                continue


# Database ---------------------------------------------------------------------------------------------------


def test_a_database_locked_by_another_program_is_said_and_reads_go_on(pool: FaultPool) -> None:
    pool.up()
    other = sqlite3.connect(pool.paths.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert pool.cli("ps").returncode == 0
        with pytest.raises(StoreBusy, match="nothing was changed"):
            submit(pool, "true")
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert pool.rows("SELECT id FROM jobs") == []
    await_state(pool, submit(pool, "true")["id"], "done")
    assert_books_close(pool)


def test_a_damaged_database_is_never_taken_for_a_new_one(pool: FaultPool) -> None:
    pool.up()
    await_state(pool, submit(pool, "true")["id"], "done")
    assert pool.cli("down", "--yes").returncode == 0
    good = pool.paths.root.parent / "good.db"
    shutil.copy(pool.paths.database, good)
    for damage in ("empty", "half", "garbage", "no database"):
        hurt(pool.paths.database, damage)
        said = refused_up(pool)
        assert "GP-5" in said, damage
        assert "gpupool.db" in said or "database" in said, damage
        shutil.copy(good, pool.paths.database)
    pool.up()
    assert len(pool.rows("SELECT id FROM jobs")) == 1
    assert_books_close(pool)


def hurt(path: Path, damage: str) -> None:
    for beside in (f"{path}-wal", f"{path}-shm"):
        Path(beside).unlink(missing_ok=True)
    size = path.stat().st_size
    if damage == "no database":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(os.urandom(size))
    else:
        os.truncate(path, 0 if damage == "empty" else size // 2)


def test_a_state_of_a_newer_version_is_refused_and_left_as_it_is(pool: FaultPool) -> None:
    pool.up()
    assert pool.cli("down", "--yes").returncode == 0
    with sqlite3.connect(pool.paths.database) as connection:
        old = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    assert "9999" in refused_up(pool)
    with sqlite3.connect(pool.paths.database) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone()[0] == "9999"
        connection.execute("UPDATE alembic_version SET version_num = ?", (old,))
    connection.close()
    marker = pool.paths.marker.read_text()
    pool.paths.marker.write_text(json.dumps(json.loads(marker) | {"layout": 99}))
    assert "layout 99" in refused_up(pool)
    pool.paths.marker.write_text(marker)
    pool.up()


# Time -------------------------------------------------------------------------------------------------------


def test_a_clock_that_was_set_back_changes_no_books_and_no_running_times(pool: FaultPool) -> None:
    pool.up()
    held = submit(pool, "exec sleep 600")["id"]
    await_state(pool, held, "running")
    pool.kill_server()
    with sqlite3.connect(
        pool.paths.database
    ) as connection:  # as if all that was written had been an hour from now
        connection.execute("UPDATE pool SET ledger_ns = ledger_ns + ?", (HOUR_NS,))
    connection.close()
    pool.up()
    job = submit(pool, "sleep 1.1")["id"]
    await_state(pool, job, "done")
    pool.cli("stop", held)
    await_state(pool, held, "stopped")
    times = [row["at_ns"] for row in pool.rows("SELECT at_ns FROM events ORDER BY seq")]
    assert times == sorted(times)
    row = pool.rows(
        "SELECT submitted_ns, placed_ns, started_ns, ended_ns FROM jobs WHERE public_id = ?", job
    )[0]
    assert list(row) == sorted(row)
    assert row["ended_ns"] - row["started_ns"] < 60 * 10**9
    assert_books_close(pool)


# The state directory ----------------------------------------------------------------------------------------


def test_a_second_up_is_refused_and_the_first_pool_is_left_alone(pool: FaultPool) -> None:
    pool.up()
    first = pool.server_pid()
    done = pool.cli("up", "-d")
    assert (done.returncode, "GP-40" in done.stderr) == (6, True)
    assert str(first) in done.stderr
    assert pool.server_pid() == first
    await_state(pool, submit(pool, "true")["id"], "done")


def test_of_many_ups_at_once_one_wins(pool: FaultPool) -> None:
    command = [GPUPOOL, "up", "-d", "--state-dir", str(pool.paths.root), "--sim", "1xT4"]
    ups = [
        subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]  # fmt: skip
    said = [up.communicate(timeout=120)[1] for up in ups]
    assert sorted(up.returncode for up in ups) == [0, 6, 6], said
    await_state(pool, submit(pool, "true")["id"], "done")


def test_a_removed_state_directory_ends_its_server(pool: FaultPool) -> None:
    pool.up()
    pid = pool.server_pid()
    assert pid is not None
    handle = os.pidfd_open(pid)
    until(
        lambda: is_removed(pool.paths.root),
        "a directory into which the server writes meanwhile is removed",
    )
    with pool.api() as api, pytest.raises(PoolNotRunning):
        api.request("GET", "pool")
    until(lambda: has_ended(handle), "the server's end", 20)
    os.close(handle)
    pool.up()
    await_state(pool, submit(pool, "true")["id"], "done")


def is_removed(root: Path) -> bool:
    shutil.rmtree(root, ignore_errors=True)
    return not root.exists()


def has_ended(handle: int) -> bool:
    import select

    return bool(select.select([handle], [], [], 0)[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("pool.lock", signal.SIGTERM),
        ("gpupool.db.new", signal.SIGTERM),
        ("gpupool.sock", signal.SIGTERM),
        ("pool.json", signal.SIGKILL),
        ("gpupool.db.new", signal.SIGKILL),
        ("gpupool.db", signal.SIGKILL),
    ],
)
def test_a_start_that_is_ended_at_any_moment_can_be_made_again(
    pool: FaultPool, moment: str, number: signal.Signals
) -> None:
    end_start_at(pool, moment, number)
    assert pool.server_pid() is None
    pool.up()
    pool.down()
    assert not pool.paths.root.exists()


def end_start_at(pool: FaultPool, moment: str, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "gpupool.host",
        "--state-dir",
        str(pool.paths.root),
        "--sim",
        pool.sim,
    ]
    with open(pool.paths.root.parent / "start.log", "ab") as log:
        process = subprocess.Popen(
            command,
            env=environment(),
            cwd="/",
            stdout=log,
            stderr=log,
            preexec_fn=die_with_owner(signal.SIGKILL),
        )
    seen = pool.paths.root / moment
    # The new database lasts some milliseconds, and a look may miss it. Its final name shows that its
    # moment is over; the start is then ended a little later, which it must stand as well.
    passed = pool.paths.root / moment.removesuffix(".new")
    deadline = time.monotonic() + 60
    while not (seen.exists() or passed.exists()) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(number)
    status = process.wait(30)
    said = (pool.paths.root.parent / "start.log").read_text()
    assert status in ((-number,) if number == signal.SIGKILL else (0, -number)), f"{moment}: {said}"
