"""Evidence by agents: it ends planes, it ends itself when it is not renewed, and opens nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.planes.host_reader import read_planes
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.network.planes.agent_evidence import STALE_SECONDS
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.planes import PlaneNodeState, PlaneReading
from tests.support.plane_hosts import write_host
from tests.unit.network.planes.conftest import PlaneHouse


@pytest.fixture
def reading(tmp_path: Path) -> PlaneReading:
    write_host(tmp_path / "host")
    found = read_planes(tmp_path / "host", "node-1")
    assert found is not None
    return found


def report(house: PlaneHouse, reading: PlaneReading | None, agent: str = "node-1") -> None:
    house.allocations.agents.apply_reports(agent, ReportsIn(planes=reading))


def show(house: PlaneHouse, plane: str) -> PlaneNodeState:
    (state,) = house.allocations.planes.get_plane(house.manager, plane).nodes
    return state


def list_sources(house: PlaneHouse) -> dict[str, str]:
    evidence = house.allocations.plane_evidence.list_evidence()
    return {one.name: one.source for one in evidence if one.name.startswith("node-")}


def test_a_reading_as_demanded_changes_nothing(house: PlaneHouse, reading: PlaneReading) -> None:
    house.demand("roce", "infiniband", "storage")
    report(house, reading)
    # It brings no plane into force: switches, the subnet manager and targets have to.
    assert not show(house, "infiniband").in_force
    house.apply_files()
    for plane, target in (("roce", "rails"), ("infiniband", "pkeys"), ("storage", "nvme")):
        state = show(house, plane)
        assert state.in_force, state.reason
        assert f"node-1.{target}" in state.evidence
    assert house.run_job(house.manager, "train").state == "starting"


def test_a_foreign_key_on_a_port_ends_the_plane(house: PlaneHouse, reading: PlaneReading) -> None:
    house.demand("infiniband")
    house.apply_files()
    report(house, reading)
    assert show(house, "infiniband").in_force
    reading.ports[0].keys.append("0x8011")
    report(house, reading)
    assert show(house, "infiniband").reason == "the ports of node-1 have 0x8011 too"
    assert house.run_job(house.manager, "train").state == "pending"


def test_a_connection_to_storage_of_another_tenant_closes_the_node(
    house: PlaneHouse, reading: PlaneReading
) -> None:
    house.demand("storage")
    house.apply_files()
    report(house, reading)
    house.allocations.planes.release_plane(house.manager, "storage")
    house.apply_files()
    # The target no longer lets it in, and the node has not disconnected.
    for n in range(5):
        house.submit(1000, None, principal=house.stranger, name=f"guest-{n}")
    jobs = [house.place(f"guest-{n}") for n in range(5)]
    # Four have the cards of the other node.
    assert [job.node for job in jobs] == ["node-2"] * 4 + [None]
    reading.nvme_subsystems.clear()
    report(house, reading)
    assert house.place("guest-4").node == "node-1"


def test_a_reading_that_is_not_renewed_ends_the_plane(
    house: PlaneHouse, reading: PlaneReading, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.demand("infiniband")
    house.apply_files()
    report(house, reading)
    begin_ns = house.store.clock.now_ns()
    seconds = 0
    monkeypatch.setattr(house.store.clock, "now_ns", lambda: begin_ns + seconds * NANOS_PER_SECOND)
    seconds = STALE_SECONDS - 1
    report(house, None)
    assert show(house, "infiniband").in_force
    seconds = STALE_SECONDS + 20
    report(house, None)
    assert "was read by its agent too long ago" in show(house, "infiniband").reason
    assert list_sources(house)["node-1.pkeys"] == "stale"
    assert house.run_job(house.manager, "train").state == "pending"
    report(house, reading)
    assert show(house, "infiniband").in_force
    assert house.place("train").state == "starting"


def test_nodes_of_other_agents_and_pools_without_planes_are_passed_over(
    house: PlaneHouse, reading: PlaneReading
) -> None:
    report(house, reading)
    assert list_sources(house) == {}
    house.demand("infiniband")
    report(house, reading, "node-2")
    report(house, reading.model_copy(update={"node": "node-9"}))
    assert list_sources(house) == {}
