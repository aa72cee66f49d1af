"""Which machines are read, and what happens to one that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpupool.agent.network.planes.plane_reports import PlaneReports
from gpupool.model.topology import Topology
from gpupool.probes.contract import Machine
from gpupool.wire.network.planes import PlaneReading
from tests.support.plane_hosts import write_host


class Served:
    """Machines of an agent."""

    def __init__(self, *, simulated: bool) -> None:
        machine = Machine("node-1", (), Topology(), simulated=simulated)
        self.machines: Mapping[str, Machine] = {"node-1": machine}


@pytest.mark.parametrize(("simulated", "nodes"), [(False, ["node-1"]), (True, [])])
def test_real_machines_are_reported_alone(
    tmp_path: Path, simulated: bool, nodes: list[str]
) -> None:
    write_host(tmp_path)
    found = list[PlaneReading]()
    PlaneReports(Served(simulated=simulated), found.append, tmp_path).report()
    assert [reading.node for reading in found] == nodes


def test_a_machine_that_cannot_be_read_reports_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_host(tmp_path)
    (tmp_path / "sys/class/infiniband/mlx5_0/ports/1/pkeys/1").write_text("what\n")
    found = list[PlaneReading]()
    PlaneReports(Served(simulated=False), found.append, tmp_path).report()
    assert found == []
    assert "planes of node-1 cannot be read" in caplog.text
