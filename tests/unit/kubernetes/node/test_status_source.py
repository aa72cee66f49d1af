"""What the status of a GpuNode is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.kubernetes.metering.gpu_time import GpuTimeRecord
from gpupool.kubernetes.node.card_health import CardHealth
from gpupool.kubernetes.node.status_source import StatusSource
from gpupool.model.sharing_default import SHARING_LABEL
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.kube_builders import node


@pytest.fixture
def source(tmp_path: Path) -> StatusSource:
    (machine,) = parse_sim("2xL40S", "n0")
    health = CardHealth(SimulatedProbe(machine, tmp_path), machine, lambda: None)
    spending = GpuTimeRecord(tmp_path / "spent.json", lambda uid, container: None)
    return StatusSource(health, spending, machine.topology, 8)


def test_default_is_that_of_the_node_as_it_is_now(source: StatusSource) -> None:
    labelled = node("n0", **{SHARING_LABEL: "burst"})
    found = []
    for seen, gone in ((labelled, False), (node("n0"), False), (labelled, False), (labelled, True)):
        source.note_node(seen, gone)
        found.append(source.build_status((), (), 1)["sharingDefault"])
    assert found == ["burst", "fixed", "burst", "fixed"]


def test_uses_have_slot_and_generation_of_their_container(source: StatusSource) -> None:
    prepared = {("u2", "main"): 4, ("u1", "main"): 3}
    uses = source.collect_uses(prepared, {("u1", "main"): "s7"}, ())
    assert [(one.uid, one.slot, one.generation) for one in uses] == [("u1", "s7", 3), ("u2", "", 4)]
