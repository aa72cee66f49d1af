"""One account fills its quota of job output over and over; what another account's job wrote stays,
to the byte."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool
from tests.support.accounts import acting_as, open_directory

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be several people"),
]

MALLORY, ALICE = 54351, 54352
MIB = 1 << 20
WRITTEN = 3 * MIB


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[RealPool]:
    """4 MiB of output for each user."""
    monkeypatch.setenv("GPUPOOL_MAX_LOG_PER_USER", "4MiB")
    with open_directory() as place, RealPool(place / "pool", "2xL40S") as made:
        yield made


def submit(pool: RealPool, uid: int, name: str, script: str) -> None:
    launch = {"argv": ["/bin/sh", "-c", script], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}
    body = {"name": name, "shape": {"gpu_milli": 100}, "launch": launch}

    def act() -> None:
        with Api(client_settings({}, state_dir=str(pool.state_dir))) as api:
            api.request("POST", "jobs", body)

    acting_as(uid, act)
    pool.until_state(name, "done")


def output_of(pool: RealPool, uid: int) -> int:
    logs = pool.state_dir.glob("agent/jobs/*/log.*")
    return sum(path.stat().st_size for path in logs if (path.parent / f"owner.{uid}").exists())


def test_a_user_that_floods_its_logs_loses_its_own_oldest_and_nobody_elses(pool: RealPool) -> None:
    submit(pool, ALICE, "precious", "seq 1 1000")
    for number in range(4):
        submit(pool, MALLORY, f"flood-{number}", f"head -c {WRITTEN} /dev/zero")
    pool.until(lambda: poked(pool) <= 4 * MIB, "mallory within the quota")
    assert output_of(pool, MALLORY) == WRITTEN, "the youngest log stays whole"
    assert pool.do("logs", "precious") == "".join(f"{n}\n" for n in range(1, 1001))
    gone = pool.run("logs", "flood-0")
    assert (gone.returncode, gone.stdout) == (0, "")
    assert re.search(rf"\b{WRITTEN} bytes before this were", gone.stderr), gone.stderr
    assert len(pool.run("logs", "flood-3").stdout) == WRITTEN


def poked(pool: RealPool) -> int:
    """Mallory's output; a job of the owner gives the agent work, which is when it looks, as is each
    heartbeat."""
    pool.do("run", "--gpu", "0.1", "--", "true")
    return output_of(pool, MALLORY)
