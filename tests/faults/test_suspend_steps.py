"""A job whose agent or server is killed at each step of a suspend and of a resume.

Afterwards it is suspended, or it runs with its contents; the ledger says the same, and the books
close.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import GpupoolError
from tests.faults import invariants
from tests.faults.pool import FaultPool, until
from tests.faults.steps import ENDED, await_state, check_at_rest

pytestmark = pytest.mark.root

PROGRAM = Path(__file__).parents[1] / "support" / "holding_program.py"
MIB = 1 << 20
SEAT = (300, 1024 * MIB)
#: The step that the ordinary tests run; the others are marked slow.
SHORT = ("resume-recorded",)
STEPS = [
    ("suspend", "suspend-noted"),
    ("suspend", "suspend-recorded"),
    ("suspend", "suspend-moved"),
    ("suspend", "suspend-reported"),
    ("suspend", "before-commit:job.suspended"),
    ("suspend", "after-commit:job.suspended"),
    ("resume", "resume-noted"),
    ("resume", "resume-moved"),
    ("resume", "resume-recorded"),
    ("resume", "resume-reported"),
    ("resume", "before-commit:job.resumed"),
    ("resume", "after-commit:job.resumed"),
]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


def list_cases() -> list[object]:
    cases = list[object]()
    for verb, step in STEPS:
        marks = () if step in SHORT else pytest.mark.slow
        cases.append(pytest.param(verb, step, id=f"{verb}-{step.replace(':', '-')}", marks=marks))
    return cases


@pytest.mark.parametrize(("verb", "step"), list_cases())
def test_a_move_that_is_killed_at_a_step_goes_on_and_loses_nothing(
    pool: FaultPool, verb: str, step: str
) -> None:
    pool.up()
    submit(pool)
    if verb == "resume":
        move(pool, "suspend")
        assert read_state(pool) == "suspended"
    pool.kill_server()
    name = "GPUPOOL_STORE_FAULT" if ":" in step else "GPUPOOL_FAULT"
    pool.up(**{name: step}, GPUPOOL_FAULTS_ALLOWED="1")
    with contextlib.suppress(GpupoolError):
        move(pool, verb)
    until(lambda: pool.server_pid() is None, "the kill")
    pool.up()
    wanted = "suspended" if verb == "suspend" else None
    until(lambda: read_state(pool) == wanted, f"a job that is {wanted or 'running'}")
    assert read_seat(pool) == ((0, 0) if wanted else SEAT)
    assert invariants.books(pool) == []
    if wanted:
        move(pool, "resume")
    await_ticks(pool, 3)
    # The books count whole seconds: in the next one the job holds its seats again.
    second = int(time.time())
    until(lambda: int(time.time()) > second, "the next second")
    with pool.api() as api:
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    assert await_state(pool, *ENDED)["state"] == "stopped"
    assert "lost" not in read_ticks(pool)
    check_at_rest(pool)
    assert pool.rows("SELECT kind, data FROM events WHERE kind LIKE 'fence.%'") == []


def submit(pool: FaultPool) -> None:
    launch = {
        "argv": [sys.executable, str(PROGRAM), "64", str(locate_ticks(pool))],
        "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)},
    }
    shape = {"gpu_milli": SEAT[0], "memory_bytes": SEAT[1]}
    with pool.api() as api:
        api.request("POST", "jobs", {"name": "the-job", "shape": shape, "launch": launch})
    await_ticks(pool, 1)


def move(pool: FaultPool, verb: str) -> None:
    with pool.api() as api:
        api.request("POST", f"jobs/the-job/{verb}", {}, query={"wait_seconds": 20})


def await_ticks(pool: FaultPool, more: int) -> None:
    before = len(read_ticks(pool))
    until(lambda: len(read_ticks(pool)) >= before + more, "looks at the contents")


def locate_ticks(pool: FaultPool) -> Path:
    return pool.paths.root.parent / "ticks"


def read_ticks(pool: FaultPool) -> list[str]:
    path = locate_ticks(pool)
    return path.read_text().splitlines() if path.exists() else []


def read_state(pool: FaultPool) -> str | None:
    found = pool.rows("SELECT state FROM suspensions")
    return str(found[0]["state"]) if found else None


def read_seat(pool: FaultPool) -> tuple[int, int]:
    (row,) = pool.rows("SELECT gpu_milli, memory_bytes FROM seats")
    return row["gpu_milli"], row["memory_bytes"]
