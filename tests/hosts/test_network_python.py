"""The SDK's networks with the real OVN: the page of networks from Python, run as it stands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import find_missing_programs
from gpupool.base.errors import OverlappingSubnets
from gpupool.client import Pool
from tests.e2e.pool_fixture import RealPool
from tests.support.pages import blocks

_MISSING = find_missing_programs()
_REASON = f"needs {', '.join(sorted(set(_MISSING.values())))}" if _MISSING else ""
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpy-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "2xL40S") as made:
        yield made
        made.stop_all()
    shutil.rmtree(directory)


def run_block(pool: RealPool, text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **pool.environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_of_the_page_work_in_their_order(pool: RealPool) -> None:
    create, delete = blocks("network-python.md", "python")
    with Pool(pool.state_dir) as sdk:
        assert sdk.networks.enable().state == "ready"
        assert run_block(pool, create) == "100.126.0.2 ['10.0.0.0/24']\n"
        job = pool.until_state("server", "running")
        lab = sdk.networks.get("lab")
        assert [one.members[0].address for one in lab.load_balancers] == [job["address"]]
        assert [group.jobs for group in lab.security_groups] == [1]
        assert [record.address for record in lab.dns_records] == ["10.0.0.200"]
        assert [port.dns_name for port in lab.show().ports] == ["server"]
        reach = lab.check_reach(job["address"], job["address"], port=8000)
        assert (reach.is_reached, reach.target) == (True, job["address"])
        with pytest.raises(OverlappingSubnets):
            lab.create_subnet("10.0.0.128/25", "second")
        assert run_block(pool, delete).startswith(f"{OverlappingSubnets.code} ")
        assert list(sdk.networks) == []
        assert sdk.networks.disable().state == "off"
