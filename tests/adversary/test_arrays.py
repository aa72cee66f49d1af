"""One account submits the largest arrays it can; another one's `ps` and submissions go on, and a
bound says no."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.base.errors import TooMuchPending
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool
from tests.support.accounts import acting_as, open_directory

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be several people"),
]

MALLORY, ALICE = 54341, 54342
LARGEST, MANY = 1_000_000, 100_000


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[RealPool]:
    """Two cards, and 150 entries of the queue for each user."""
    monkeypatch.setenv("GPUPOOL_MAX_PENDING_PER_USER", "150")
    with open_directory() as place, RealPool(place / "pool", "2xL40S") as made:
        yield made


def body(name: str, **more: Any) -> dict[str, Any]:
    launch = {"argv": ["/bin/sleep", "600"], "env": {"PATH": "/usr/bin:/bin", "NOISE": "x" * 4096}}
    return {"name": name, "shape": {"gpu_milli": 1000}, "launch": launch, **more}


def api(state_dir: Path) -> Api:
    return Api(client_settings({}, state_dir=str(state_dir)))


def test_the_largest_arrays_of_one_account_stop_nobody_else(pool: RealPool) -> None:
    state_dir = pool.state_dir

    def attack() -> object:
        mine = api(state_dir)
        taken = [mine.request("POST", "jobs", body("wide", array=LARGEST))["count"]]
        taken += [
            mine.request("POST", "jobs", body(f"many-{n}", array=MANY))["count"] for n in range(70)
        ]
        try:
            for n in range(70, 100):
                taken.append(mine.request("POST", "jobs", body(f"many-{n}", array=MANY))["count"])
        except TooMuchPending as error:
            return {"taken": sum(taken), "code": error.code, "numbers": error.details}
        return {"taken": sum(taken), "code": None}

    def work() -> object:
        mine = api(state_dir)
        seen = [
            mine.request("POST", "jobs", body(f"alice-{n}"))["first"]["state"] for n in range(5)
        ]
        listed = mine.request("GET", "jobs", query={"limit": 1000})["items"]
        return {"seen": seen, "jobs": sum(job["jobs"] for job in listed), "lines": len(listed)}

    attacked: Any = acting_as(MALLORY, attack)
    assert attacked["code"] == "GP-2044"
    assert attacked["numbers"]["limit"] == 150
    assert attacked["taken"] > LARGEST + 70 * MANY
    worked: Any = acting_as(ALICE, work)
    assert worked["jobs"] == attacked["taken"] + 5
    assert worked["lines"] < 300
    assert pool.json("show")["jobs_pending"] == attacked["taken"] + 5 - 2

    def stop() -> object:
        mine = api(state_dir)
        me = mine.request("GET", "whoami")["user"]
        live = mine.request("GET", "jobs", query={"limit": 1000, "live": True, "user": me})["items"]
        for name in {job["array"] or job["name"] for job in live}:
            mine.request("POST", f"jobs/{name}/stop", {"grace_seconds": 0})
        return True

    def runs() -> object:
        return api(state_dir).request("GET", "jobs/alice-0")["state"]

    assert acting_as(MALLORY, stop)
    pool.until(lambda: acting_as(ALICE, runs) == "running", "Alice's first job runs")
    assert acting_as(ALICE, stop)
    pool.until(lambda: pool.held_milli() == 0, "every card is free")
    assert pool.json("show")["jobs_live"] == 0
    assert "Traceback" not in (state_dir / "server.log").read_text()
