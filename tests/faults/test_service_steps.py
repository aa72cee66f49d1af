"""A server, with its agent inside, that is killed at the commits of a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import NotFound, PoolLost, ServiceUnavailable
from gpupool.store.faults import STEPS
from tests.faults.pool import FaultPool, until
from tests.faults.steps import arm, job_body

pytestmark = [pytest.mark.root, pytest.mark.adversary, pytest.mark.nightly]

KINDS = ("service.created", "services", "service.draining", "service.replica-ended")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_service_has_its_number_whenever_the_server_is_killed(
    pool: FaultPool, step: str, kind: str
) -> None:
    arm(pool, step, kind)
    job = job_body(pool, "exec sleep 600")
    del job["name"]
    rule = {"min_replicas": 2, "max_replicas": 2, "drain_seconds": 1}
    body = {"name": "web", "job": job, "rule": rule}
    ask(pool, "POST", "services", body)
    # What starts is never healthy: its job is all that counts here.
    await_jobs(pool, 2)
    fewer = {"rule": {"min_replicas": 1, "max_replicas": 1}}
    ask(pool, "PATCH", "services/web", fewer)
    await_jobs(pool, 1)
    ask(pool, "DELETE", "services/web")
    until(lambda: revive(pool) and not pool.rows("SELECT id FROM services"), "its removal")
    await_jobs(pool, 0)
    starts = pool.rows("SELECT seq FROM events WHERE kind = 'pool.started'")
    assert len(starts) == 2, "the server was not killed once"


def ask(pool: FaultPool, method: str, path: str, body: object = None) -> None:
    """Ask under one key until it is answered: the server may die of it."""

    def try_once() -> bool:
        revive(pool)
        with pool.api() as api:
            try:
                api.request(method, path, body, idempotency_key=f"{method}-web")
            except (PoolLost, ServiceUnavailable):
                return False
            except NotFound:
                # It was removed in the answer that was lost.
                return method == "DELETE"
        return True

    until(try_once, f"an answer to {method} {path}")


def revive(pool: FaultPool) -> bool:
    """Start the server again, without a fault, if it is dead."""
    if pool.server_pid() is None:
        pool.up()
    return True


def await_jobs(pool: FaultPool, number: int) -> None:
    live = "SELECT id FROM jobs WHERE state IN ('pending', 'starting', 'running')"
    running = "SELECT id FROM jobs WHERE state = 'running'"

    def look() -> bool:
        revive(pool)
        return len(pool.rows(running)) == number == len(pool.rows(live))

    until(look, f"{number} jobs")
