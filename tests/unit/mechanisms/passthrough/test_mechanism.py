"""Whole cards for virtual machines: what is refused, with the reason, and what a VM gets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.contract import FenceLevel, GrantedDevice, PreparedAllocation
from gpupool.mechanisms.passthrough import PassthroughMechanism
from gpupool.mechanisms.pci.fabric import TABLE
from gpupool.model.device import CardMode
from tests.support.handover_builders import (
    AUDIO,
    CARD,
    build_card_machine,
    make_device,
    make_view,
    read_tree,
)
from tests.support.pci_kernel import FakeKernel, FunctionFacts, InlineRunner, add_function


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_card_machine(tmp_path / "root")


@pytest.fixture
def mechanism(root: Path) -> PassthroughMechanism:
    return PassthroughMechanism(root, InlineRunner(FakeKernel(root)))


def test_a_vm_gets_all_functions_with_their_sizes_and_hard_levels(
    mechanism: PassthroughMechanism, tmp_path: Path
) -> None:
    prepared = mechanism.prepare(make_view(make_device("00000000:1B:00.0")), tmp_path)
    assert isinstance(prepared, PreparedAllocation)
    assert [one.address for one in prepared.pci] == [CARD, AUDIO]
    assert {one.driver for one in prepared.pci} == {"vfio-pci"}
    assert prepared.pci[0].bar_bytes == (16 << 20, 256 << 30, 32 << 20)
    assert prepared.levels is not None
    assert set(prepared.levels.write().values()) == {FenceLevel.HARD}
    assert f"reset: {CARD} by flr or bus" in prepared.notes[2]
    assert prepared.env["NVIDIA_VISIBLE_DEVICES"] == "void", "the card is the VM's, not the job's"


def test_a_plain_card_needs_the_label_of_its_owner(mechanism: PassthroughMechanism) -> None:
    device = replace(make_device(), labels={})
    reason = mechanism.explain_refusal(make_view(device))
    assert "`gpupool mode GPU-1 passthrough`, or label it switchable=passthrough" in reason
    in_mode = replace(device, mode=CardMode.PASSTHROUGH)
    assert mechanism.explain_refusal(make_view(in_mode)) == ""
    mig = replace(device, mode=CardMode.MIG)
    assert "is in mode mig, not passthrough" in mechanism.explain_refusal(make_view(mig))


def test_parts_of_a_card_are_refused(mechanism: PassthroughMechanism) -> None:
    device = make_device()
    part = GrantedDevice(device, 500, device.memory_bytes // 2)
    reason = mechanism.explain_refusal(make_view(device, granted=(part,)))
    assert "is granted in part, and a VM takes a whole card" in reason


def test_simulated_cards_and_cards_without_an_address_are_refused(
    mechanism: PassthroughMechanism,
) -> None:
    simulated = replace(make_device(), simulated=True)
    assert "simulated" in mechanism.explain_refusal(make_view(simulated))
    nowhere = replace(make_device(), pci_address=None)
    assert "has no PCI address" in mechanism.explain_refusal(make_view(nowhere))
    assert mechanism.explain_refusal(make_view()) == "it has no card"


def test_a_busy_card_names_its_processes_but_not_the_daemon(
    mechanism: PassthroughMechanism, root: Path
) -> None:
    (root / "dev/nvidia3").touch()
    facts = root / "proc/driver/nvidia/gpus" / CARD
    facts.mkdir(parents=True)
    (facts / "information").write_text("Model: \t\t NVIDIA H200\nDevice Minor: \t 3\n")
    for pid, name in ((500, "nvidia-persistenced"), (812, "python"), (813, "dcgm")):
        process = root / "proc" / str(pid)
        (process / "fd").mkdir(parents=True)
        (process / "comm").write_text(f"{name}\n")
        (process / "fd/4").symlink_to(root / "dev/nvidia3")
    reason = mechanism.explain_refusal(make_view(make_device()))
    assert f"python (pid 812) on {root}/dev/nvidia3" in reason
    assert "dcgm (pid 813)" in reason
    assert "persistenced" not in reason


def test_a_card_without_a_reset_is_refused(mechanism: PassthroughMechanism, root: Path) -> None:
    (root / "sys/bus/pci/devices" / CARD / "reset_method").unlink()
    reason = mechanism.explain_refusal(make_view(make_device()))
    assert "knows no way to reset it" in reason


def test_a_card_with_virtual_functions_is_refused(
    mechanism: PassthroughMechanism, root: Path
) -> None:
    add_function(root, FunctionFacts("0000:3b:00.0", 30, total=4))
    FakeKernel(root).write(root / "sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "2")
    reason = mechanism.explain_refusal(make_view(make_device("0000:3b:00.0")))
    assert "has 2 virtual functions, which must be removed first" in reason


def test_cards_of_a_fabric_must_be_one_partition(
    mechanism: PassthroughMechanism, root: Path
) -> None:
    gpus = [
        {"physicalId": 1, "pciBusId": f"0000{CARD}"},
        {"physicalId": 2, "pciBusId": "00000000:43:00.0"},
    ]
    table = {"partitionInfo": [{"partitionId": 4, "isActive": 0, "gpuInfo": gpus}]}
    (root / TABLE).parent.mkdir(parents=True)
    (root / TABLE).write_text(json.dumps(table))
    reason = mechanism.explain_refusal(make_view(make_device()))
    assert "are no partition of the NVSwitch fabric, which has partition 4" in reason


def test_prepared_again_with_other_cards_is_refused(
    mechanism: PassthroughMechanism, root: Path, tmp_path: Path
) -> None:

    add_function(root, FunctionFacts("0000:3b:00.0", 30))
    mechanism.prepare(make_view(make_device()), tmp_path)
    other = make_device("0000:3b:00.0", "GPU-2")
    with pytest.raises(RequestRejection, match="with other cards"):
        mechanism.prepare(make_view(other), tmp_path)


def test_a_failed_step_is_undone_by_the_release(root: Path, tmp_path: Path) -> None:

    mechanism = PassthroughMechanism(root, InlineRunner(FakeKernel(root)))
    folder = root / "sys/bus/pci/drivers/vfio-pci"
    for attribute in folder.iterdir():
        attribute.unlink()
    folder.rmdir()
    before = read_tree(root)
    with pytest.raises(RequestRejection, match="run modprobe vfio_pci"):
        mechanism.prepare(make_view(make_device()), tmp_path)
    mechanism.unprepare("al-1", 5, tmp_path)
    assert read_tree(root) == before
    assert mechanism.observe(tmp_path) == {}
