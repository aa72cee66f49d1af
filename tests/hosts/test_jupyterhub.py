"""A real JupyterHub whose servers are jobs: start, a killed hub, a refusal, stop."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.jupyterhub import RunningHub, find_jupyterhub

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the hub of this test is root's"),
]
ENDED = ("done", "failed", "stopped", "lost")


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    if not find_jupyterhub():
        pytest.skip("JupyterHub cannot be installed here (PyPI, npm, and make console for Node.js)")
    with tempfile.TemporaryDirectory(prefix="gph-") as directory:
        Path(directory).chmod(0o755)
        with RealPool(Path(directory) / "pool", "2xL40S") as made:
            yield made


@pytest.fixture(scope="module")
def hub(pool: RealPool) -> Iterator[RunningHub]:
    made = RunningHub(pool.state_dir.parent / "hub", pool.state_dir, pool.environ)
    try:
        made.start()
        yield made
    finally:
        made.close()


def list_live(pool: RealPool) -> list[str]:
    return [job["id"] for job in pool.json("ps") if job["state"] not in ENDED]


def test_a_server_is_a_job_and_outlives_a_killed_hub(pool: RealPool, hub: RunningHub) -> None:
    assert hub.ask("POST", "/hub/api/users/ada")[0] == 201
    status, words = hub.ask("POST", "/hub/api/users/ada/server", {"gpu": "0.3", "memory": "4GiB"})
    assert status in (201, 202), f"{words}\n{hub.read_log()}"
    asked = "/user/ada/api/status"
    hub.until(lambda: hub.ask("GET", asked)[0] == 200, "the server answers through the proxy")
    [job] = list_live(pool)
    shown = pool.job(job)
    assert (shown["gpu_milli"], shown["name"][:8]) == (300, "hub-ada-")
    hub.kill()
    hub.start()
    hub.until(lambda: hub.ask("GET", asked)[0] == 200, "the server answers after the restart")
    assert list_live(pool) == [job]
    assert hub.ask("DELETE", "/hub/api/users/ada/server")[0] in (202, 204)
    hub.until(lambda: not list_live(pool), "the job has ended")


def test_more_than_the_hub_allows_is_refused_with_the_bound(
    pool: RealPool, hub: RunningHub
) -> None:
    assert hub.ask("POST", "/hub/api/users/bob")[0] == 201
    status, words = hub.ask("POST", "/hub/api/users/bob/server", {"gpu": "0.9"})
    assert status == 400, f"{words}\n{hub.read_log()}"
    assert "0.5 at most" in words
    assert list_live(pool) == []
