"""The PCI scan on a made-up sysfs tree."""

from pathlib import Path

import pytest

from gpupool.probes.pci import PciCard, scan_pci


def function(
    root: Path, address: str, driver: str | None = None, group: int | None = None, **attributes: str
) -> None:
    home = root / "devices/pci0000:00" / address
    home.mkdir(parents=True)
    (root / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
    (root / "bus/pci/devices" / address).symlink_to(home)
    for name, value in attributes.items():
        (home / {"kind": "class"}.get(name, name)).write_text(f"{value}\n")
    for link, target in (
        ("driver", driver and f"bus/pci/drivers/{driver}"),
        ("iommu_group", group and f"groups/{group}"),
    ):
        if target:
            (root / target).mkdir(parents=True, exist_ok=True)
            (home / link).symlink_to(root / target)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    function(
        tmp_path,
        "0000:3b:00.0",
        driver="nvidia",
        group=42,
        vendor="0x10de",
        device="0x2335",
        kind="0x030200",
        numa_node="1",
    )
    function(
        tmp_path, "0000:3c:00.0", vendor="0x10de", device="0x1eb8", kind="0x030200", numa_node="-1"
    )
    function(
        tmp_path,
        "0000:3d:00.0",
        driver="vfio-pci",
        vendor="0x10de",
        device="0x26b9",
        kind="0x030200",
    )
    function(
        tmp_path,
        "0000:3e:00.0",
        driver="nouveau",
        vendor="0x10de",
        device="0x2684",
        kind="0x030000",
    )
    function(
        tmp_path, "0000:c1:00.0", driver="amdgpu", vendor="0x1002", device="0x74a1", kind="0x120000"
    )
    function(
        tmp_path, "0000:d1:00.0", driver="xe", vendor="0x8086", device="0xffff", kind="0x038000"
    )
    function(
        tmp_path, "0000:3b:00.1", driver="snd", vendor="0x10de", device="0x22e8", kind="0x040300"
    )
    function(
        tmp_path, "0000:e1:00.0", driver="devdrv", vendor="0x19e5", device="0xd802", kind="0x120000"
    )
    function(tmp_path, "0000:e2:00.0", vendor="0x1ed5", device="0x0222", kind="0x030000")
    # The console of Huawei's service processor.
    function(tmp_path, "0000:07:00.0", vendor="0x19e5", device="0x1711", kind="0x030000")
    function(tmp_path, "0000:05:00.0", vendor="0x1a03", device="0x2000", kind="0x030000")
    function(tmp_path, "0000:06:00.0", vendor="0x10de", device="0x22a3", kind="0x068000")
    return tmp_path


def test_only_accelerators_of_known_makers_are_listed(sysfs: Path) -> None:
    found = {card.address: card.model for card in scan_pci(sysfs)}
    assert found == {
        "0000:3b:00.0": "H200",
        "0000:3c:00.0": "T4",
        "0000:3d:00.0": "L40S",
        "0000:3e:00.0": "RTX-4090",
        "0000:c1:00.0": "MI300X",
        "0000:d1:00.0": "8086:ffff",
        "0000:e1:00.0": "19e5:d802",
        "0000:e2:00.0": "1ed5:0222",
    }


def test_a_card_is_described_by_where_it_sits_and_what_drives_it(sysfs: Path) -> None:
    assert scan_pci(sysfs)[0] == PciCard(
        "0000:3b:00.0", "nvidia", "10de:2335", "H200", "nvidia", 1, 42, False
    )


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("0000:3b:00.0", ""),
        ("0000:c1:00.0", ""),
        ("0000:d1:00.0", ""),
        ("0000:e1:00.0", ""),
        ("0000:e2:00.0", "no driver is bound to it"),
        ("0000:3c:00.0", "no driver is bound to it (the usual one is nvidia)"),
        ("0000:3d:00.0", "it is handed over to virtual machines (vfio-pci)"),
        ("0000:3e:00.0", "driver nouveau cannot compute (the usual one is nvidia)"),
    ],
)
def test_what_stands_in_the_way_of_using_a_card_is_said(
    sysfs: Path, address: str, problem: str
) -> None:
    assert {card.address: card.problem for card in scan_pci(sysfs)}[address] == problem


def test_a_virtual_function_is_told_from_a_whole_card(sysfs: Path) -> None:
    (sysfs / "devices/pci0000:00/0000:3b:00.0/physfn").mkdir()
    assert [card.virtual_function for card in scan_pci(sysfs)][:2] == [True, False]


def test_a_device_that_vanishes_half_way_is_left_out(sysfs: Path) -> None:
    (sysfs / "devices/pci0000:00/0000:3c:00.0/device").unlink()
    assert "0000:3c:00.0" not in {card.address for card in scan_pci(sysfs)}


def test_a_machine_without_a_pci_bus_has_no_cards(tmp_path: Path) -> None:
    assert scan_pci(tmp_path) == ()
