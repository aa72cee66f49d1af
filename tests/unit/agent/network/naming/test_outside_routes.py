"""Routes outside of the ports on this machine, in this kernel: what one job did keeps no other one waiting."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import JobNamespaces, create_namespace, remove_namespace
from gpupool.agent.network.naming.outside_routes import OutsideRoutes
from gpupool.network.northbound import name_port

pytest.importorskip("pyroute2")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
#: In the order in which they are asked for.
BROKEN = "n-0123456781"
GONE = "n-0123456782"
GOOD = "n-0123456783"


def run_ip(namespace: Path, *words: str) -> str:
    command = ["ip", "-6", "-n", namespace.name, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[JobNamespaces]:
    files = EngineFiles(f"t{os.getpid()}", tmp_path, tmp_path)
    made = JobNamespaces(files)
    for port, hop in ((BROKEN, "fe80::1"), (GOOD, "fd12::1")):
        namespace = made.locate(port)
        create_namespace(namespace)
        run_ip(namespace, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        for name in ("eth0", "eth1"):
            run_ip(namespace, "link", "set", name, "up")
        run_ip(namespace, "address", "add", "fd12::2/64", "dev", "eth0", "nodad")
        # A job that may change its interface can lead the route anywhere.
        run_ip(namespace, "route", "add", "fd00::/8", "via", hop, "dev", "eth0")
    # As a kill between the two steps of a namespace's removal leaves it.
    made.locate(GONE).touch()
    yield made
    for port in (BROKEN, GOOD):
        remove_namespace(made.locate(port))
    made.locate(GONE).unlink()


def test_a_port_that_takes_no_route_keeps_no_other_one_waiting(
    ports: JobNamespaces, tmp_path: Path
) -> None:
    routes = OutsideRoutes(EngineFiles(f"t{os.getpid()}", tmp_path, tmp_path))
    wanted = [(name_port(port), True) for port in (BROKEN, GONE, GOOD)]
    routes.follow(wanted)
    assert "default via fd12::1" in run_ip(ports.locate(GOOD), "route")
    assert "default" not in run_ip(ports.locate(BROKEN), "route")
    # It is asked again, and what is done stays.
    namespace = ports.locate(BROKEN)
    run_ip(namespace, "route", "replace", "fd00::/8", "via", "fd12::1", "dev", "eth0")
    routes.follow(wanted)
    assert "default via fd12::1" in run_ip(namespace, "route")
