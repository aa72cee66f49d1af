"""A server killed just before and just after the commit of a threshold, and of a month's seal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.base.errors import SealedMonth
from gpupool.billing.sealing.tables import month_lines
from gpupool.billing.service import Billing
from gpupool.store.database import connect, open_store, sqlite_url
from gpupool.store.faults import STEPS
from tests.faults.pool import FaultPool, answer_of, until
from tests.faults.steps import arm, await_state, job_body, kill_around_commit, killed_by
from tests.support.metering_books import ADMIN

#: Everything that is spent is more than this.
BUDGET = {"tenant": "default", "unit": "gpu-hours", "amount": 1, "force": True}
MONTH = "2023-11"

#: Runs a month on a clock of its own, and dies in the transaction that seals it.
SEAL = """
import os, sys
from pathlib import Path
from gpupool.store.faults import read_fault
from tests.support.metering_books import Pool, ADMIN
from tests.unit.billing.sealing.test_sealing import MONTH, run_month
pool = Pool("sqlite:///" + sys.argv[1])
billing = run_month(pool)
pool.store._fault = read_fault(os.environ)
billing.seals.seal(ADMIN, MONTH)
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


def list_percents(pool: FaultPool) -> list[int]:
    with pool.api() as api:
        events = answer_of(api, "GET", "events", query={"limit": 1000})
    return [one["data"]["percent"] for one in events if one["kind"] == "budget.crossed"]


def has_spent(pool: FaultPool) -> bool:
    with pool.api() as api:
        rows = answer_of(api, "GET", "report", query={"since": "1h"})["rows"]
    return any(row["kind"] == "tenant" and row["card_milliseconds"] for row in rows)


@pytest.mark.root
@kill_around_commit
def test_a_threshold_is_one_event_whenever_the_server_is_killed(pool: FaultPool, step: str) -> None:
    pool.up()
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "sleep 600"))
    await_state(pool, "running")
    until(lambda: has_spent(pool), "a second of the job in the books")
    pool.kill_server()
    arm(pool, step, "budget.crossed")
    killed_by(pool, "PUT", "budgets", BUDGET)
    pool.up()
    with pool.api() as api:
        again = api.request("PUT", "budgets", BUDGET)
        held = api.request("POST", "jobs", job_body(pool, "true") | {"name": "second"})
        explained = answer_of(api, "GET", "jobs/second/explain")
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
        api.request("POST", "jobs/second/stop", {"grace_seconds": 0})
    assert again["on_hold"]
    assert list_percents(pool) == [50, 80, 100]
    assert held["first"]["state"] == "pending"
    assert "the budget of tenant default" in explained["sentence"]
    await_state(pool, "stopped")


@pytest.mark.slow  # a month of hours takes seconds
@pytest.mark.parametrize("step", STEPS)
def test_a_seal_is_whole_or_not_there_whenever_the_server_is_killed(
    tmp_path: Path, step: str
) -> None:
    path = tmp_path / "gpupool.db"
    fault = {"GPUPOOL_STORE_FAULT": f"{step}:month.sealed", "GPUPOOL_FAULTS_ALLOWED": "1"}
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SEAL, str(path)], cwd=root, env={**os.environ, **fault}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    store = open_store(connect(sqlite_url(path)), "test")
    try:
        billing = Billing(store)
        with store.read() as connection:
            lines = connection.execute(
                sa.select(sa.func.count()).select_from(month_lines)
            ).scalar_one()
        seals = billing.seals.list_all()
        if step == "before-commit":
            assert (seals, lines) == ([], 0)
            seals = [billing.seals.seal(ADMIN, MONTH)]
        else:
            with pytest.raises(SealedMonth):
                billing.seals.seal(ADMIN, MONTH)
        assert [(one.month, one.intact) for one in seals] == [(MONTH, True)]
        assert seals[0].lines > 0
    finally:
        store.close()
