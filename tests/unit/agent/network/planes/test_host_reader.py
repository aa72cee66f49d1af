"""What is read of a recorded machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.network.planes.host_reader import read_planes
from gpupool.wire.network.planes import FabricPort, RailInterface
from tests.support.plane_hosts import write_host
from tests.support.planes import NQN


def test_a_recorded_machine_is_read_whole(tmp_path: Path) -> None:
    write_host(tmp_path)
    reading = read_planes(tmp_path, "node-1")
    assert reading is not None
    port = FabricPort(name="mlx5_0/1", guid="0x0000000000000010", keys=["0x7fff", "0x8010"])
    assert reading.ports == [port]
    rail = RailInterface(name="eth2", vlans=[101], masters=["bond0", "vrf4001"])
    assert reading.rails == [rail]
    assert reading.nvme_hosts == [f"{NQN}1"]
    # Disks inside the machine are no connections.
    assert reading.nvme_subsystems == ["nqn.2026-01.example:acme"]


def test_a_connection_as_another_host_shows_both(tmp_path: Path) -> None:
    write_host(tmp_path)
    (tmp_path / "sys/class/nvme/nvme1/hostnqn").write_text(f"{NQN}2\n")
    reading = read_planes(tmp_path, "node-1")
    assert reading is not None
    assert reading.nvme_hosts == [f"{NQN}1", f"{NQN}2"]


def test_a_key_that_cannot_be_read_could_be_any(tmp_path: Path) -> None:
    write_host(tmp_path)
    key = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/pkeys/1"
    key.unlink()
    # A directory answers a read with an error, as a driver does.
    key.mkdir()
    with pytest.raises(ValueError, match=r"pkeys/1 cannot be read"):
        read_planes(tmp_path, "node-1")


def test_a_machine_without_such_hardware_has_no_reading(tmp_path: Path) -> None:
    assert read_planes(tmp_path, "node-1") is None
