"""Threads and steps that hang without an error: the pool says which one, and begins anew where it
cannot go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.base.errors import ServiceUnavailable
from gpupool.client.transport import Api
from tests.adversary.injected import HANGING, Faults
from tests.adversary.test_threads import failed_check, page, unwell
from tests.e2e.pool_fixture import RealPool

pytestmark = [pytest.mark.adversary, pytest.mark.root]

#: A round may take 3 s instead of 60 s, and 12 s more until the process ends.
PATIENCE = "0.05"
#: The same for one that is to be looked at while it hangs.
LONG_PATIENCE = "0.2"


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path)


def pool_with(tmp_path: Path, faults: Faults, patience: str) -> RealPool:
    pool = RealPool(tmp_path / "pool", sim="1xL40S")
    pool.environ |= faults.environ | {"GPUPOOL_FAULTS_ALLOWED": "1", "GPUPOOL_PATIENCE": patience}
    return pool


@pytest.fixture
def slow(tmp_path: Path, faults: Faults) -> Iterator[RealPool]:
    with pool_with(tmp_path, faults, LONG_PATIENCE) as pool:
        yield pool


@pytest.fixture
def quick(tmp_path: Path, faults: Faults) -> Iterator[RealPool]:
    with pool_with(tmp_path, faults, PATIENCE) as pool:
        yield pool


def submit(pool: RealPool) -> dict[str, Any]:
    with Api(client_settings(state_dir=str(pool.state_dir))) as api:
        body = {"shape": {"gpu_milli": 1000}, "launch": {"argv": ["/bin/true"], "cwd": "/"}}
        return dict(api.request("POST", "jobs", body)["first"])


def test_a_step_that_hangs_is_said_everywhere(slow: RealPool, faults: Faults) -> None:
    pid = slow.server_pid()
    with Api(client_settings(state_dir=str(slow.state_dir))) as api:
        with faults.armed(pid, HANGING["mkdir"], after=0):
            job = submit(slow)
            slow.until(lambda: "threads" in unwell(api), "/healthz")
            said = slow.until(lambda: failed_check(slow, "threads"), "doctor")
            assert "agent-start silent since" in said["text"]
            silent = 'gpupool_thread_silent_seconds{thread="agent-start"} '
            (line,) = (
                line for line in page(api, "/metrics").splitlines() if line.startswith(silent)
            )
            assert float(line.removeprefix(silent)) > 0
        slow.until_state(job["name"], "done")
        slow.until(lambda: not unwell(api), "the end of the silence")
    assert slow.server_pid() == pid


def test_a_step_that_hangs_for_good_has_the_server_begin_anew(
    quick: RealPool, faults: Faults
) -> None:
    pid = quick.server_pid()
    with Api(client_settings(state_dir=str(quick.state_dir))) as api:
        with faults.armed(pid, HANGING["mkdir"], after=0):
            job = submit(quick)
            quick.until(lambda: "began anew" in restarts(api), "the server's beginning anew")
        quick.until_state(job["name"], "done")
    assert quick.server_pid() == pid


def restarts(api: Api) -> str:
    try:
        found = {one["name"]: one for one in api.request("GET", "checks")}
    except ServiceUnavailable:  # it is beginning anew
        return ""
    return "" if found["server"]["state"] == "ok" else str(found["server"]["text"])


def test_a_disk_that_never_ends_a_flush_is_said_by_healthz_and_doctor(
    slow: RealPool, faults: Faults
) -> None:
    """Nothing is acknowledged meanwhile, but what the server says of itself waits for no disk."""
    with Api(client_settings(state_dir=str(slow.state_dir))) as api:
        with faults.armed(slow.server_pid(), HANGING["flush"], after=0):
            client = slow.start("submit", "--gpu", "1", "--name", "waits", "--", "/bin/true")
            slow.until(lambda: "threads" in unwell(api), "/healthz")
            said = slow.until(lambda: failed_check(slow, "threads"), "doctor")
            assert "store-flush silent since" in said["text"]
        client.communicate()
        slow.until_state("waits", "done")
