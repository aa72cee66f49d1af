"""`network verify` of load balancers on the real OVN and HAProxy, and a proof that it can fail."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.balancing.proxies import PROGRAM
from gpupool.agent.network.verification.balancers import check_balancers
from gpupool.wire.network.promises import ProbedBackend, ProbedBalancer, ProbePort
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, find_end, network_pool

pytestmark = [
    *OVN_MARKS,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="needs the package haproxy"),
]
SERVE = "import http.server as h; h.ThreadingHTTPServer(('', 8000), h.BaseHTTPRequestHandler).serve_forever()"
JOBS = ("client", "one", "two", "idle")


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        made.do("network", "create", "a", "--cidr", "10.0.0.0/24")
        for name in JOBS:
            command = (sys.executable, "-c", SERVE) if name in ("one", "two") else ("sleep", "600")
            words = ("submit", "--network", "a", "--gpu", "0.1", "--name", name, "--")
            made.do(*words, *command)
            made.until_state(name, "running")
        behind = [word for name in ("one", "two", "idle") for word in ("--backend", name)]
        create = ("network", "lb-create", "a")
        made.do(*create, "checked", "--port", "80", "--target-port", "8000", *behind)
        made.do(*create, "blind", "--port", "80", "--target-port", "8000", *behind, "--no-check")
        made.do(*create, "web", "--http", "--backend", "one", "--target-port", "8000")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


@pytest.fixture(scope="module")
def ports(pool: RealPool) -> dict[str, ProbePort]:
    found = dict[str, ProbePort]()
    for port in pool.json("network", "show", "a")["ports"]:
        name = port["job_name"]
        found[name] = ProbePort(
            key=name,
            network="a",
            name=name,
            address=port["address"],
            prefix=24,
            gateway="10.0.0.1",
            mac=port["mac"],
            mtu=1442,
            domain="a",
        )
    return found


@pytest.fixture(scope="module")
def places(pool: RealPool) -> dict[str, Path]:
    return {name: find_end(pool, "a", name).namespace for name in JOBS}


def make_balancer(pool: RealPool, name: str, ports: Mapping[str, ProbePort]) -> ProbedBalancer:
    """A load balancer as one that is checked, whatever it is."""
    shown: dict[str, Any] = pool.json("network", "lb-show", "a", name)
    backends = [
        ProbedBackend(key=one, address=ports[one].address, port=8000)
        for one in ("one", "two", "idle")
    ]
    return ProbedBalancer(
        network="a",
        name=name,
        protocol="tcp",
        address=shown["address"],
        port=80,
        is_checked=True,
        backends=backends,
    )


def test_load_balancers_are_verified(pool: RealPool) -> None:
    found = pool.json("network", "verify", "a")
    checks = {one["name"]: one for one in found["checks"]}
    for name in ("checked", "blind", "web"):
        assert checks[f"load-balancer/a/{name}"]["kept"] is True, found
        assert checks[f"load-balancer-isolation/a/{name}"]["kept"] is True, found
    measured = checks["load-balancer/a/checked"]["measured"]
    assert measured == "48 connections: 2 of 2 that serve got some, 1 that do not serve got 0"
    # Of the three jobs behind the other one, any may get connections.
    assert not checks["load-balancer/a/blind"]["measured"].endswith("got 0")


def test_one_that_leaves_nothing_out_and_a_stranger_that_arrives_are_found(
    pool: RealPool, ports: dict[str, ProbePort], places: dict[str, Path]
) -> None:
    # A neighbour, taken for a stranger.
    balancer = make_balancer(pool, "blind", ports)
    reach, isolation = check_balancers([balancer], [ports["client"]], ports["idle"], places)
    assert (reach.kept, isolation.kept) == (False, False), (reach, isolation)


def test_what_cannot_be_tested_says_why(
    pool: RealPool, ports: dict[str, ProbePort], places: dict[str, Path]
) -> None:
    balancer = make_balancer(pool, "checked", ports)
    behind = [ports["one"], ports["two"]]
    (check,) = check_balancers([balancer], behind, ports["client"], places)
    assert (check.kept, check.reason) == (None, "no other job of the network is on this machine")
    (check,) = check_balancers([balancer], list(ports.values()), ports["client"], {})
    assert check.reason == "no job behind it has its port on this machine"
    empty = balancer.model_copy(update={"backends": []})
    (check,) = check_balancers([empty], list(ports.values()), ports["client"], places)
    assert (check.kept, check.reason) == (None, "no job behind it runs")
