"""Pieces of other tools are found beside ours, on a stand-in for the driver and on plain files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.mechanisms.foreign_pieces import ForeignPieceFinder
from gpupool.mechanisms.mig.mechanism import MigMechanism
from gpupool.mechanisms.mps.daemon import DaemonProcesses
from gpupool.model.device import CardMode, Device
from gpupool.model.partition import ForeignPiece, PartitionSlot
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.gate import DriverGate
from gpupool.probes.nvml.instances import NvmlInstances
from tests.support.handover_builders import CARD, build_card_machine
from tests.support.mig_cards import CARDS, MigHost
from tests.support.mig_fixtures import host, mechanism, mig_library

__all__ = ["host", "mechanism", "mig_library"]


@pytest.fixture
def no_processes(tmp_path: Path) -> DaemonProcesses:
    """A host without processes."""
    (tmp_path / "proc").mkdir()
    return DaemonProcesses(tmp_path / "proc")


@contextmanager
def unchanged(host: MigHost) -> Iterator[None]:
    before = host.snapshot()
    yield
    assert host.snapshot() == before


def test_an_instance_beside_ours_is_foreign(
    host: MigHost, mechanism: MigMechanism, tmp_path: Path, no_processes: DaemonProcesses
) -> None:
    mechanism.prepare(host.make_view("1g.18gb", start=6), tmp_path)
    number = host.make_foreign("2g.35gb", 2)
    finder = ForeignPieceFinder(tmp_path, tmp_path, host.driver, host.files, no_processes)
    with unchanged(host):
        found = finder.find([host.make_device(0), host.make_device(1)])
    text = f"an instance that gpupool did not create (2g.35gb, GPU instance {number})"
    assert found == {CARDS[0]: (ForeignPiece(text, PartitionSlot(2, 2, "2g.35gb")),)}


def test_a_look_that_fails_leaves_what_was_found_before(
    host: MigHost, tmp_path: Path, no_processes: DaemonProcesses
) -> None:
    gate = DriverGate()
    driver = NvmlInstances(NvmlDriver(gate))
    host.make_foreign("2g.35gb", 2)
    finder = ForeignPieceFinder(tmp_path, tmp_path, driver, host.files, no_processes)
    before = finder.find([host.make_device()])
    assert before
    with gate.suspend("a", "card 1 is reset", lambda: False):
        pass
    assert finder.find([host.make_device()]) == before


def test_functions_without_a_switch_of_ours_are_foreign(
    tmp_path: Path, no_processes: DaemonProcesses
) -> None:
    root = build_card_machine(tmp_path / "root")
    card = Device("GPU-1", 0, "intel", "a card", "card", 1 << 30, pci_address=CARD)
    finder = ForeignPieceFinder(tmp_path, root, processes=no_processes)
    functions = root / "sys/bus/pci/devices" / CARD / "sriov_numvfs"
    functions.write_text("0")
    assert finder.find([card]) == {}
    functions.write_text("2")
    text = "2 virtual functions that gpupool did not create"
    assert finder.find([card]) == {"GPU-1": (ForeignPiece(text),)}
    assert finder.find([replace(card, mode=CardMode.SRIOV)]) == {}
    assert functions.read_text() == "2"


def test_a_daemon_that_is_not_below_our_directory_is_foreign(tmp_path: Path) -> None:
    for pid, pipe in ((11, tmp_path / "mps/GPU-1/pipe"), (12, Path("/tmp/nvidia-mps"))):
        entry = tmp_path / "proc" / str(pid)
        entry.mkdir(parents=True)
        (entry / "comm").write_text("nvidia-cuda-mps-control\n"[:15] + "\n")
        (entry / "environ").write_text(f"CUDA_MPS_PIPE_DIRECTORY={pipe}\0")
        (entry / "stat").write_text(f"{pid} (nvidia-cuda-mps) S 1 {pid} {pid} 0 -1")
        (entry / "cmdline").write_text("nvidia-cuda-mps-control\0-d\0")
        (entry / "status").write_text("State:\tS (sleeping)\nPPid:\t1\n")
    card = Device("GPU-1", 0, "nvidia", "a card", "card", 1 << 30)
    finder = ForeignPieceFinder(tmp_path, tmp_path, processes=DaemonProcesses(tmp_path / "proc"))
    text = "an MPS process that gpupool did not start (pid 12)"
    assert finder.find([card]) == {"GPU-1": (ForeignPiece(text),)}


def test_simulated_cards_have_no_foreign_pieces(
    host: MigHost, tmp_path: Path, no_processes: DaemonProcesses
) -> None:
    host.make_foreign("2g.35gb", 2)
    finder = ForeignPieceFinder(tmp_path, tmp_path, host.driver, host.files, no_processes)
    assert finder.find([replace(host.make_device(), simulated=True)]) == {}
