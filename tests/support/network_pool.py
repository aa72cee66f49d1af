"""A pool with networks on the real OVN, for tests that need root and OVN's packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles, find_missing_programs, locate_engine
from gpupool.agent.network.namespaces import JobNamespaces
from gpupool.agent.network.verification.traffic import TrafficEnd
from tests.e2e.pool_fixture import RealPool

_MISSING = find_missing_programs()
_REASON = f"needs {', '.join(sorted(set(_MISSING.values())))}" if _MISSING else ""
#: What every test on the real OVN is marked with.
OVN_MARKS = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
]


@contextlib.contextmanager
def network_pool(cards: str = "8xL40S") -> Iterator[RealPool]:
    """A pool whose networking is enabled; nothing is left of it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="gpn-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", cards) as pool:
        pool.do("network", "enable")
        files = locate_files(pool)
        yield pool
    left = [*Path("/run/netns").glob(f"gpupool-{files.mark}*"), *files.run.glob("*")]
    assert left == []
    shutil.rmtree(directory)


def locate_files(pool: RealPool) -> EngineFiles:
    return locate_engine(pool.state_dir / "agent/network")


def find_end(
    pool: RealPool, network: str, job: str, files: EngineFiles | None = None
) -> TrafficEnd:
    """The namespace and the address of a job.

    Args:
        files: of its machine's engine; None: the pool's own machine.
    """
    ports = pool.json("network", "show", network)["ports"]
    (port,) = [one for one in ports if one["job_name"] == job]
    namespaces = JobNamespaces(locate_files(pool) if files is None else files)
    for key in namespaces.list_ports():
        namespace = namespaces.locate(key)
        command = ["ip", "-n", namespace.name, "link", "show", "eth0"]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if port["mac"] in shown:
            return TrafficEnd(namespace, IPv4Address(port["address"]))
    raise AssertionError(f"no namespace of this machine has {port['mac']}")
