"""What tests that kill at one named step of a write share: arming it, a job that writes down that
it ran, rest.

`kill_around_commit` runs a test with the server killed just before the commit, and just after it: one of the two
every time, the other at night.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.store.faults import STEPS
from tests.faults import invariants
from tests.faults.pool import FaultPool, answer_of, until

ENDED = ("done", "failed", "stopped", "lost")


def kill_around_commit(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with each kill."""
    return pytest.mark.sampled(2)(pytest.mark.parametrize("step", STEPS)(test))


def arm(pool: FaultPool, step: str, subject: str) -> None:
    pool.up(GPUPOOL_STORE_FAULT=f"{step}:{subject}", GPUPOOL_FAULTS_ALLOWED="1")


def job_body(pool: FaultPool, script: str) -> dict[str, Any]:
    ran = pool.paths.root.parent / "ran"
    launch = {
        "argv": ["sh", "-c", f"echo ran >>{ran}; {script}"],
        "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)},
    }
    return {
        "name": "the-job",
        "shape": {"gpu_milli": 300, "memory_bytes": 1 << 30},
        "launch": launch,
    }


def killed_by(pool: FaultPool, method: str, path: str, body: Any, **options: Any) -> None:
    """Ask, and see the server die of it."""
    with pool.api() as api, pytest.raises(ServiceUnavailable):
        api.request(method, path, body, **options)
    until(lambda: pool.server_pid() is None, "the server's death")


def run_times(pool: FaultPool) -> int:
    ran = pool.paths.root.parent / "ran"
    return len(ran.read_text().splitlines()) if ran.exists() else 0


def await_state(pool: FaultPool, *states: str, name: str = "the-job") -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        with pool.api() as api:
            found: dict[str, Any] = answer_of(api, "GET", f"jobs/{name}")
        return found if found["state"] in states else None

    found = until(look, f"{name} being {' or '.join(states)}")
    assert found is not None
    return found


def check_at_rest(pool: FaultPool) -> None:
    until(lambda: not invariants.node_leftovers(pool), "the node being clean")
    with pool.api() as api:
        report = answer_of(api, "GET", "report", query={"since": "1d"})
    assert [*invariants.books(pool), *invariants.report_closes(report)] == []
    assert invariants.report_matches_intervals(pool, report) == []


def gang_body(pool: FaultPool, script: str) -> dict[str, Any]:
    """Two members of 0.4 of the one card."""
    body = job_body(pool, script)
    role = {"name": "worker", "count": 2}
    return body | {
        "shape": {"gpu_milli": 400, "memory_bytes": 1 << 30},
        "gang": {"name": "all", "parts": [role]},
    }


def states_of(pool: FaultPool, like: str = "the-job%") -> list[str]:
    return [
        row["state"]
        for row in pool.rows(f"SELECT state FROM jobs WHERE name LIKE '{like}' ORDER BY id")
    ]


def quick(pool: FaultPool, **more: str) -> None:
    """Up, and nobody is protected from preemption."""
    pool.up(GPUPOOL_PREEMPT_AFTER="0", GPUPOOL_PREEMPT_GRACE="5", **more)
