"""What the status of a GpuNode is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.metering.gpu_time import GpuTimeRecord
from gpupool.kubernetes.node.card_health import CardHealth
from gpupool.kubernetes.node.status_source import StatusSource
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import ShareIsolation
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.mechanisms.foreign_pieces import ForeignPieceFinder
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.mps.daemon import DaemonProcesses
from gpupool.model.device import Device
from gpupool.model.enforcement import FenceLevel
from gpupool.model.partition import PartitionSlot
from gpupool.model.sharing_default import SHARING_LABEL
from gpupool.model.topology import Topology
from gpupool.probes.contract import Machine
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.kube_builders import gpu_node, node
from tests.support.mig_cards import MigHost
from tests.support.mig_fixtures import host, mechanism, mig_library

__all__ = ["host", "mechanism", "mig_library"]


def is_never_limited(_uid: str, _container: str) -> bool:
    return False


def describe_soft_share(device: Device) -> ShareIsolation | None:
    return None if device.partitioned else ShareIsolation(FenceLevel.SOFT, "no limits")


@pytest.fixture
def source(tmp_path: Path) -> StatusSource:
    (machine,) = parse_sim("2xL40S", "n0")
    health = CardHealth(SimulatedProbe(machine, tmp_path), machine, lambda: None)
    spending = GpuTimeRecord(tmp_path / "spent.json", lambda uid, container: None)
    return StatusSource(
        health,
        spending,
        machine.topology,
        8,
        find_pieces=lambda cards: {},
        is_limited=is_never_limited,
        describe_share=describe_soft_share,
    )


def test_default_is_that_of_the_node_as_it_is_now(source: StatusSource) -> None:
    labelled = node("n0", **{SHARING_LABEL: "burst"})
    found = []
    for seen, gone in ((labelled, False), (node("n0"), False), (labelled, False), (labelled, True)):
        source.note_node(seen, gone)
        found.append(source.build_status((), (), 1)["sharingDefault"])
    assert found == ["burst", "fixed", "burst", "fixed"]


def test_the_driver_is_asked_once_what_it_enforces_in_a_share(tmp_path: Path) -> None:
    asked = list[str]()

    def describe(device: Device) -> ShareIsolation:
        asked.append(device.uuid)
        return ShareIsolation(FenceLevel.SOFT)

    (machine,) = parse_sim("2xL40S", "n0")
    source = StatusSource(
        CardHealth(SimulatedProbe(machine, tmp_path), machine, lambda: None),
        GpuTimeRecord(tmp_path / "spent.json", lambda uid, container: None),
        machine.topology,
        8,
        find_pieces=lambda cards: {},
        is_limited=is_never_limited,
        describe_share=describe,
    )
    for _ in range(2):
        cards = source.build_status((), (), 1)["cards"]
        assert [card["share"] for card in cards] == [{"fence": "soft"}] * 2
    assert asked == [device.uuid for device in machine.devices]


def test_uses_have_slot_and_generation_of_their_container(source: StatusSource) -> None:
    prepared = {("u2", "main"): 4, ("u1", "main"): 3}
    uses = source.collect_uses(prepared, {("u1", "main"): "s7"}, ())
    assert [(one.uid, one.slot, one.generation) for one in uses] == [("u1", "s7", 3), ("u2", "", 4)]


def test_instance_of_another_tool_is_reported_and_its_slot_not_given_out(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path
) -> None:
    """On the stand-in for NVIDIA's library, from the driver's answer to the plan of the cluster."""
    (tmp_path / "proc").mkdir()
    processes = DaemonProcesses(tmp_path / "proc")
    finder = ForeignPieceFinder(tmp_path, tmp_path, host.driver, host.files, processes)
    machine = Machine("m0", (host.make_device(),), Topology())
    health = CardHealth(SimulatedProbe(machine, tmp_path), machine, lambda: None)
    spending = GpuTimeRecord(tmp_path / "spent.json", lambda uid, container: None)
    source = StatusSource(
        health,
        spending,
        machine.topology,
        8,
        find_pieces=finder.find,
        is_limited=is_never_limited,
        describe_share=describe_soft_share,
    )
    assert not source.look_for_pieces()
    host.make_foreign("3g.71gb", 4)
    assert source.look_for_pieces()
    assert not source.look_for_pieces()
    pool = ClusterCache()
    pool.note_host("m0", NodeFacts.from_json(node("m0")))
    status = source.build_status((), (), 1)
    pool.note_ledger("m0", GpuNode.from_json({**gpu_node("m0", 0), "status": status}))
    (layout,) = pool.take_snapshot().cards.layouts.values()
    assert layout.slots == (PartitionSlot(4, 4, "3g.71gb"),)
    (card,) = status["cards"]
    assert "gpupool did not create (3g.71gb" in card["foreign"][0]["text"]
