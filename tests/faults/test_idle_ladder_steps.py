"""A server that is killed just before and just after the commit of each step of an idle ladder.

Afterwards each step was taken once and in order, an idle job that is used has its share back, and
the books close.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.store.faults import STEPS
from tests.faults.pool import FaultPool, until
from tests.faults.steps import ENDED, arm, await_state, check_at_rest

pytestmark = [pytest.mark.root, pytest.mark.adversary]

PROGRAM = Path(__file__).parents[1] / "support" / "idle_program.py"
GIB = 1 << 30
KINDS = ("job.idle-warned", "job.idle-shrunk", "job.idle-returned", "job.idle-stopped")
#: The case that the ordinary tests run; the others are marked slow.
SHORT = ("after-commit", "job.idle-shrunk")
#: The stop comes so late that the job can be used before it.
POLICY = {
    "window_seconds": 1,
    "steps": [
        {"act": "warn", "after_seconds": 1},
        {"act": "shrink", "after_seconds": 2, "gpu_milli": 50},
        {"act": "stop", "after_seconds": 30},
    ],
}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


def list_cases() -> list[object]:
    cases = list[object]()
    for kind in KINDS:
        for step in STEPS:
            marks = () if (step, kind) == SHORT else pytest.mark.slow
            cases.append(pytest.param(step, kind, id=f"{step}-{kind}", marks=marks))
    return cases


@pytest.mark.parametrize(("step", "kind"), list_cases())
def test_each_step_is_taken_once_whenever_the_server_is_killed(
    pool: FaultPool, step: str, kind: str
) -> None:
    arm(pool, step, kind)
    submit_idle(pool)
    set_policy(pool)
    if kind in KINDS[:2]:
        survive_kill(pool)
    until(lambda: count_events(pool, "job.idle-shrunk"), "a share that shrank")
    assert [count_events(pool, one) for one in KINDS[:2]] == [1, 1]
    assert read_milli(pool) == 50
    if kind != KINDS[3]:
        locate(pool, "ask").touch()
        if kind == KINDS[2]:
            survive_kill(pool)
        until(lambda: count_events(pool, "job.idle-returned"), "a share that grew back")
        assert count_events(pool, "job.idle-returned") == 1
        with pool.api() as api:
            api.request("POST", "jobs/idle/stop", {"grace_seconds": 0})
    else:
        survive_kill(pool)
        until(lambda: count_events(pool, "job.idle-stopped"), "the end of the ladder")
        assert count_events(pool, "job.idle-stopped") == 1
    assert await_state(pool, *ENDED, name="idle")["state"] == "stopped"
    check_at_rest(pool)


def survive_kill(pool: FaultPool) -> None:
    until(lambda: pool.server_pid() is None, "the kill")
    pool.up()


def submit_idle(pool: FaultPool) -> None:
    words = ["64", str(locate(pool, "ticks")), str(locate(pool, "ask"))]
    launch = {
        "argv": [sys.executable, str(PROGRAM), *words],
        "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)},
    }
    shape = {"gpu_milli": 600, "memory_bytes": 10 * GIB}
    with pool.api() as api:
        api.request("POST", "jobs", {"name": "idle", "shape": shape, "launch": launch})
    until(lambda: locate(pool, "ticks").exists(), "the first look")


def set_policy(pool: FaultPool) -> None:
    with pool.api() as api:
        api.request("PUT", "idle/policies", POLICY)


def locate(pool: FaultPool, name: str) -> Path:
    return pool.paths.root.parent / name


def count_events(pool: FaultPool, kind: str) -> int:
    return len(pool.rows("SELECT seq FROM events WHERE kind = ?", kind))


def read_milli(pool: FaultPool) -> int:
    return int(pool.rows("SELECT gpu_milli FROM seats")[0]["gpu_milli"])
