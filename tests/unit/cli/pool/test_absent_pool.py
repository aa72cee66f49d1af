"""Why a pool does not answer, by its state directory and its process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import PoolLost, PoolNotRunning
from gpupool.cli.pool import absent_pool
from gpupool.cli.pool.absent_pool import describe_absent, describe_stuck

ABSENT = PoolNotRunning("no pool is running", hint="gpupool up")
LOST = PoolLost("it does not answer", hint="see")
GONE_PID = 2**22 + 7  # above the kernel's largest number of a process


def write_marker(state_dir: Path, **known: Any) -> str:
    (state_dir / "pool.json").write_text(json.dumps(known))
    return str(state_dir)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_a_pool_that_was_told_to_stop_is_no_failure(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "pool.json").write_text(text)
    found = describe_absent(str(tmp_path), ABSENT)
    assert (found["state"], found["text"], found["next"]) == (
        "ok",
        "no pool is running",
        "gpupool up",
    )


def test_a_server_that_ended_by_itself_fails_and_a_living_one_warns(tmp_path: Path) -> None:
    found = describe_absent(write_marker(tmp_path, pid=GONE_PID), ABSENT)
    ended = f"its server (pid {GONE_PID}) ended without being told to"
    assert found["state"] == "fail"
    assert found["text"] == f"{ended}; running jobs go on, nothing new starts"
    found = describe_absent(write_marker(tmp_path, pid=os.getpid()), ABSENT)
    assert (found["state"], found["next"]) == ("warn", "try again")


@pytest.mark.parametrize(
    ("files", "says", "following"),
    [
        ([], "is missing: the jobs and the books", "gpupool restore BACKUP"),
        (["gpupool.db.rescued"], "is missing while the pool ran", "mv gpupool.db.rescued"),
        (["gpupool.db", "gpupool.db.rescued"], "was replaced by another file", "mv gpupool.db"),
    ],
)
def test_a_lost_database_is_told_with_what_saves_it(
    files: list[str], says: str, following: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).touch()
    found = describe_absent(write_marker(tmp_path, begun=True), ABSENT)
    assert found["state"] == "fail"
    assert says in found["text"]
    assert following in found["next"]


@pytest.mark.parametrize("known", [{}, {"begun": True, "store": "postgresql"}])
def test_no_database_is_missing_before_the_start_or_on_postgresql(
    known: dict[str, Any], tmp_path: Path
) -> None:
    assert describe_absent(write_marker(tmp_path, **known), ABSENT)["state"] == "ok"


@pytest.mark.parametrize(
    ("state", "says", "following"),
    [
        ("T", "it is stopped by a signal", "kill -CONT 7"),
        ("D", "the kernel holds it", "see dmesg"),
        ("", "it does not answer", "see whether that machine"),
        ("S", "does not answer within 4 s", "gpupool restart"),
    ],
)
def test_a_stuck_server_is_judged_by_its_process(
    state: str, says: str, following: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent_pool, "_read_process_state", lambda _pid: state)
    found = describe_stuck(write_marker(tmp_path, pid=7), LOST)
    assert found["state"] == "fail"
    assert says in found["text"]
    assert following in found["next"]
