"""A pool of the previous release is opened by this one with its jobs running; the reverse is
refused without damage."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary.conftest import open_to_other_users
from tests.faults.pool import GPUPOOL, environment, kill, until
from tests.support.previous_release import HistoryMissingError, previous_gpupool

pytestmark = [pytest.mark.adversary, pytest.mark.root]
NEWER_STATE = 7  # exit code of GP-5002


class TwoReleases:
    """One state directory, served by either release in turn."""

    def __init__(self, state: Path, old: Path) -> None:
        self.state = state
        self.programs = {"old": str(old), "new": GPUPOOL}

    def run(self, release: str, *words: str, expected: int = 0) -> str:
        done = subprocess.run(
            [self.programs[release], *words],
            env=environment(GPUPOOL_STATE_DIR=str(self.state), UPGRADE_TEST=str(self.state)),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == expected, (
            f"{release} {words}: {done.returncode}: {done.stdout}{done.stderr}"
        )
        return done.stdout + done.stderr

    def jobs(self, release: str) -> dict[str, dict[str, object]]:
        answer = json.loads(self.run(release, "ps", "-o", "json"))
        return {
            job["name"]: job for job in (answer if isinstance(answer, list) else answer["items"])
        }

    def stop_server(self) -> None:
        """As docs/how-to/upgrading.md says: end the server alone."""
        pid = int((self.state / "pool.lock").read_text())
        os.kill(pid, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the server's end")

    def digests(self) -> dict[str, str]:
        """Of what a refused start must leave as it is. The write-ahead log is part of the
        database."""
        with sqlite3.connect(self.state / "gpupool.db") as connection:
            dump = "\n".join(connection.iterdump())
        return {
            "database": hashlib.sha256(dump.encode()).hexdigest(),
            "marker": hashlib.sha256((self.state / "pool.json").read_bytes()).hexdigest(),
        }


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[TwoReleases]:
    try:
        old = previous_gpupool()
    except HistoryMissingError as error:
        pytest.skip(str(error))
    two = TwoReleases(open_to_other_users(tmp_path) / "state", old)
    try:
        yield two
    finally:
        for release in ("new", "old"):
            subprocess.run(
                [two.programs[release], "down", "--state-dir", str(two.state), "--purge", "--yes", "--grace", "0s"],
                env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
            )  # fmt: skip
        for pid in _commands(two.state):
            kill(pid)


def test_pool_of_the_previous_release_is_taken_over_and_not_given_back(pool: TwoReleases) -> None:
    command = ("sleep", "600")
    pool.run("old", "up", "-d", "--sim", "2xL40S")
    pool.run("old", "tenant", "create", "red")
    pool.run("old", "quota", "set", "red", "--gpus", "1")
    share = ("--gpu", "0.4", "--memory", "2GiB")
    pool.run("old", "submit", "--name", "train", "--tenant", "red", *share, "--", *command)
    pool.run("old", "submit", "--name", "sweep", "--array", "2", *share, "--", *command)
    pool.run("old", "submit", "--name", "big", "--gpu", "1", "--count", "2", "--", *command)
    # One member ends, one runs and one waits when the new release reads them.
    one_each = 'test "$GPUPOOL_ARRAY_INDEX" = 0 || exec sleep 600'
    of_red = ("--tenant", "red", "--gpu", "0.6", "--memory", "2GiB")
    pool.run(
        "old", "submit", "--name", "mixed", "--array", "3", *of_red, "--", "sh", "-c", one_each
    )
    until(lambda: len(_commands(pool.state)) == 4, "four running jobs")
    before = _commands(pool.state)
    known = {name: (job["id"], job["state"]) for name, job in pool.jobs("old").items()}
    pool.stop_server()

    pool.run("new", "up", "-d")
    assert _commands(pool.state) == before
    now = {name: (job["id"], job["state"]) for name, job in pool.jobs("new").items()}
    assert now == known
    assert (
        json.loads(pool.run("new", "quota", "show", "red", "-o", "json"))["nominal_milli"] == 1000
    )
    pool.run("new", "resize", "train", "--gpu", "0.2")
    pool.run("new", "stop", "sweep", "--grace", "0s")
    until(lambda: len(_commands(pool.state)) == 2, "the end of the array")
    pool.run("new", "stop", "mixed.1", "--grace", "0s")
    until(
        lambda: pool.jobs("new")["mixed.2"]["state"] == "running",
        "the start of a member that waited",
    )
    mixed = json.loads(pool.run("new", "show", "mixed", "-o", "json"))
    assert mixed["states"] == {"done": 1, "stopped": 1, "running": 1}
    pool.run("new", "stop", "mixed", "--grace", "0s")
    until(lambda: len(_commands(pool.state)) == 1, "the end of the other array")
    assert "closes:" in pool.run("new", "report")
    pool.stop_server()

    left = pool.digests()
    said = pool.run("old", "up", "-d", expected=NEWER_STATE)
    assert "GP-5002" in said
    assert pool.digests() == left
    assert len(_commands(pool.state)) == 1

    pool.run("new", "up", "-d")
    assert pool.jobs("new")["train"]["state"] == "running"
    pool.run("new", "down", "--purge", "--yes", "--grace", "0s")
    assert not pool.state.exists()
    assert not _commands(pool.state)


def _commands(state: Path) -> set[int]:
    """Processes of this test's jobs, by the environment that their client gave them."""
    mine = f"UPGRADE_TEST={state}".encode()
    found = set()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if words[0] == b"sleep" and mine in environ:
            found.add(int(pid))
    return found
