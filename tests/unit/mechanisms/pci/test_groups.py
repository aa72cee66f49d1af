"""Which functions go along with a card, and which device forbids the hand-over."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.pci.groups import find_handover_set
from gpupool.mechanisms.pci.sysfs import PciTree
from tests.support.handover_builders import AUDIO, CARD, build_card_machine
from tests.support.pci_kernel import FakeKernel, FunctionFacts, add_function, build_tree

DISK = "0000:00:17.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_card_machine(tmp_path / "root")


def add_disk(root: Path, group: int) -> None:
    entry = add_function(
        root, FunctionFacts(DISK, group, 0x8086, class_code=0x010601, own_driver="ahci")
    )
    disk = entry / "ata1/host0/block/sda"
    disk.mkdir(parents=True)
    (root / "sys/class/block/sda").symlink_to(disk)


def test_the_audio_function_goes_along_and_the_bridge_stays(root: Path) -> None:
    found = find_handover_set(PciTree(root), CARD)
    assert found.problem == ""
    assert [one.address for one in found.functions] == [CARD, AUDIO]


def test_a_disk_in_the_group_is_named_with_its_driver(root: Path) -> None:
    add_disk(root, group=10)
    problem = find_handover_set(PciTree(root), CARD).problem
    assert problem.startswith(f"IOMMU group 10 also has {DISK}, a SATA controller on driver ahci")
    assert "(disk sda)" in problem


def test_a_disk_in_another_group_is_no_obstacle(root: Path) -> None:
    add_disk(root, group=11)
    assert find_handover_set(PciTree(root), CARD).problem == ""


def test_a_companion_in_another_group_brings_that_group_s_members(root: Path) -> None:
    add_function(
        root, FunctionFacts("0000:1b:00.2", 12, class_code=0x0C0330, own_driver="xhci_hcd")
    )
    add_disk(root, group=12)
    assert DISK in find_handover_set(PciTree(root), CARD).problem


def test_a_member_that_is_unbound_or_handed_over_is_no_obstacle(root: Path) -> None:
    add_disk(root, group=10)
    kernel = FakeKernel(root)
    entry = root / "sys/bus/pci/devices" / DISK
    kernel.write(entry / "driver/unbind", DISK)
    assert find_handover_set(PciTree(root), CARD).problem == ""
    kernel.write(entry / "driver_override", "vfio-pci")
    kernel.write(root / "sys/bus/pci/drivers_probe", DISK)
    assert find_handover_set(PciTree(root), CARD).problem == ""


@pytest.mark.parametrize(
    ("processor", "todo"),
    [
        ("GenuineIntel", "intel_iommu=on"),
        ("AuthenticAMD", "AMD-Vi"),
        ("ARM", "SMMU"),
    ],
)
def test_a_kernel_without_an_iommu_names_what_switches_it_on(
    tmp_path: Path, processor: str, todo: str
) -> None:
    root = build_tree(tmp_path / "root", [FunctionFacts(CARD, None)])
    (root / "proc/cpuinfo").write_text(f"vendor_id : {processor}\n")
    problem = find_handover_set(PciTree(root), CARD).problem
    assert "the kernel uses no IOMMU" in problem
    assert todo in problem


def test_a_slot_without_a_group_beside_others_is_the_firmware_s(root: Path) -> None:
    add_function(root, FunctionFacts("0000:3b:00.0", None))
    assert "other slots have" in find_handover_set(PciTree(root), "0000:3b:00.0").problem


def test_a_card_that_is_gone_is_refused(root: Path) -> None:
    assert "not on the PCI bus" in find_handover_set(PciTree(root), "0000:99:00.0").problem
