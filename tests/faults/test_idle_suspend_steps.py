"""A pool whose agent or server is killed while it suspends an idle job, and while that job wakes.

Afterwards the claim runs for which the idle job gave way, the idle job has its memory as it was, and
the books close.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import invariants
from tests.faults.pool import FaultPool, until
from tests.faults.steps import ENDED, await_state, check_at_rest

pytestmark = [pytest.mark.root, pytest.mark.adversary]

PROGRAM = Path(__file__).parents[1] / "support" / "idle_program.py"
GIB = 1 << 30
#: Idle after a second, and every card lends its memory twice.
RULES = {"GPUPOOL_SUSPEND_IDLE": "1", "GPUPOOL_SUSPEND_FACTOR": "2"}
#: The step that the ordinary tests run; the others are marked slow.
SHORT = ("share-opened",)
STEPS = [
    ("suspend", "share-closed"),
    ("suspend", "suspend-moved"),
    ("suspend", "suspend-reported"),
    ("suspend", "before-commit:job.suspended"),
    ("suspend", "after-commit:job.suspended"),
    ("wake", "wake-reported"),
    ("wake", "before-commit:job.woken"),
    ("wake", "after-commit:job.woken"),
    ("resume", "resume-moved"),
    ("resume", "share-opened"),
    ("resume", "before-commit:job.resumed"),
]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


def list_cases() -> list[object]:
    cases = list[object]()
    for phase, step in STEPS:
        marks = () if step in SHORT else pytest.mark.slow
        cases.append(pytest.param(phase, step, id=f"{phase}-{step.replace(':', '-')}", marks=marks))
    return cases


@pytest.mark.parametrize(("phase", "step"), list_cases())
def test_an_idle_job_that_is_moved_through_a_kill_gives_way_and_wakes(
    pool: FaultPool, phase: str, step: str
) -> None:
    name = "GPUPOOL_STORE_FAULT" if ":" in step else "GPUPOOL_FAULT"
    fault = {name: step, "GPUPOOL_FAULTS_ALLOWED": "1"}
    pool.up(**RULES, **(fault if phase == "suspend" else {}))
    submit_idle(pool)
    submit_other(pool)
    if phase == "suspend":
        survive_kill(pool)
    until(lambda: read_state(pool) == "suspended", "an idle job that gave way")
    await_state(pool, "running", name="other")
    assert invariants.books(pool) == []
    if phase == "wake":
        pool.kill_server()
        pool.up(**RULES, **fault)
    ask_program(pool)
    if phase == "wake":
        survive_kill(pool)
    until(lambda: read_wanted(pool), "a wake that is written")
    assert read_ticks(pool) == ["intact"]
    if phase == "resume":
        pool.kill_server()
        pool.up(**RULES, **fault)
    stop(pool, "other")
    if phase == "resume":
        survive_kill(pool)
    until(lambda: read_ticks(pool) == ["intact"] * 2, "the look for which it woke")
    until(lambda: read_state(pool) is None, "a job that is on its card again")
    # The books count whole seconds: in the next one the job holds its seats again.
    second = int(time.time())
    until(lambda: int(time.time()) > second, "the next second")
    stop(pool, "idle")
    assert await_state(pool, *ENDED, name="idle")["state"] == "stopped"
    check_at_rest(pool)
    assert pool.rows("SELECT kind, data FROM events WHERE kind LIKE 'fence.%'") == []


def survive_kill(pool: FaultPool) -> None:
    until(lambda: pool.server_pid() is None, "the kill")
    pool.up(**RULES)


def submit_idle(pool: FaultPool) -> None:
    words = ["64", str(locate(pool, "ticks")), str(locate(pool, "ask"))]
    launch = {
        "argv": [sys.executable, str(PROGRAM), *words],
        "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)},
    }
    shape = {"gpu_milli": 600, "memory_bytes": 10 * GIB, "host_bytes": 2 * GIB}
    body = {"name": "idle", "shape": shape, "launch": launch, "idle_seconds": 1}
    with pool.api() as api:
        api.request("POST", "jobs", body)
    until(lambda: read_ticks(pool), "the first look")


def submit_other(pool: FaultPool) -> None:
    launch = {
        "argv": ["/bin/sleep", "600"],
        "env": {"FAULT_POOL": str(pool.paths.root)},
    }
    shape = {"gpu_milli": 600, "memory_bytes": 10 * GIB}
    with pool.api() as api:
        api.request("POST", "jobs", {"name": "other", "shape": shape, "launch": launch})


def stop(pool: FaultPool, name: str) -> None:
    with pool.api() as api:
        api.request("POST", f"jobs/{name}/stop", {"grace_seconds": 0})


def ask_program(pool: FaultPool) -> None:
    locate(pool, "ask").touch()


def locate(pool: FaultPool, name: str) -> Path:
    return pool.paths.root.parent / name


def read_ticks(pool: FaultPool) -> list[str]:
    path = locate(pool, "ticks")
    return path.read_text().splitlines() if path.exists() else []


def read_state(pool: FaultPool) -> str | None:
    found = pool.rows("SELECT state FROM suspensions")
    return str(found[0]["state"]) if found else None


def read_wanted(pool: FaultPool) -> bool:
    found = pool.rows("SELECT wanted_ns FROM suspensions")
    return bool(found) and found[0]["wanted_ns"] is not None
