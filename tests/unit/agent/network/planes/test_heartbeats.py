"""A real agent reads its machine with each heartbeat, and a real server keeps what it reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.agent.config import AgentConfig
from gpupool.agent.loop import Agent
from gpupool.agent.network.planes import plane_reports
from gpupool.agent.network.planes.host_reader import read_planes
from gpupool.probes.simulated import parse_sim
from gpupool.wire.network.planes import PlaneDemandIn
from tests.support.plane_hosts import write_host
from tests.support.planes import NQN, make_content
from tests.support.supervised import until
from tests.unit.agent.pool import POOL_ID, PoolServer
from tests.unit.agent.test_loop_observer import RecordedCards


def test_readings_reach_the_server_and_follow_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = tmp_path / "host"
    write_host(host)
    monkeypatch.setattr(plane_reports, "read_planes", lambda _root, node: read_planes(host, node))
    state = tmp_path / "pool"
    state.mkdir(mode=0o700)
    server = PoolServer(state)
    server.begin()
    (machine,) = parse_sim("L40S", POOL_ID)
    config = AgentConfig(
        name="node-1",
        pool_id=POOL_ID,
        owner_uid=os.getuid(),
        owner_gid=os.getgid(),
        heartbeat_seconds=1,
    )
    probes = {"node-1": RecordedCards(machine, ())}
    agent = Agent(config, server.paths, server.api, probes)
    try:
        assert server.services is not None
        allocations = server.services.allocations
        admin = server.services.tenancy.bootstrap()
        allocations.planes.put_inventory(make_content())
        server.services.tenancy.tenants.create(admin, "acme", None)
        allocations.planes.demand_plane(admin, "storage", PlaneDemandIn(), "acme")
        agent.start()

        def find_host() -> str:
            facts = allocations.plane_evidence.list_evidence()
            return next((one.hash for one in facts if one.name == "node-1.nvme"), "")

        until(find_host, "a reading of the agent")
        before = find_host()
        (host / "etc/nvme/hostnqn").write_text(f"{NQN}2\n")
        until(lambda: find_host() != before, "the reading of a later heartbeat")
        sources = {one.name: one.source for one in allocations.plane_evidence.list_evidence()}
        assert sources == dict.fromkeys(("node-1.nvme", "node-1.pkeys", "node-1.rails"), "agent")
    finally:
        agent.close()
        agent.join()
        server.end()
