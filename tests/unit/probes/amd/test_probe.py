"""AMD hosts as recorded, and hosts where no card can compute."""

import shutil
from pathlib import Path

import pytest

from gpupool.model.device import RUNTIME_ID, DeviceHealth
from gpupool.model.topology import LinkKind
from gpupool.probes.amd import AmdProbe
from tests.support.recorded_hosts import add_amd_card, record_mi210, record_mi300_cpx, write


def test_each_mi210_is_a_card_with_its_files_and_sizes(tmp_path: Path) -> None:
    machine = record_mi210(tmp_path).scan()
    first = machine.devices[0]
    assert [device.model for device in machine.devices] == ["MI210"] * 4
    # The number in hex, as ROCm prints it: 0x5c88007d760374f3 is GPU-5c88007d760374f3
    # (github.com/gpustack/runtime, tests/gpustack_runtime/detector/samples).
    assert first.uuid == "GPU-1901ead3a2ecd4a6"
    assert first.pci_address == "0000:63:00.0"
    assert first.memory_bytes == 65520 << 20
    assert first.multiprocessors == 104
    assert first.architecture == "cdna2"
    assert first.device_paths == ("/dev/dri/card1", "/dev/dri/renderD128", "/dev/kfd")
    assert (first.health, first.numa_node) == (DeviceHealth.OK, 0)
    assert RUNTIME_ID not in first.labels


def test_cards_joined_by_xgmi_are_nearest(tmp_path: Path) -> None:
    topology = record_mi210(tmp_path).scan().topology
    a, b = topology.devices[:2]
    assert topology.find_kind(a, b) is LinkKind.NVLINK
    assert len(topology.links) == 6


def test_use_comes_from_the_card_and_processes_from_the_kfd(tmp_path: Path) -> None:
    probe = record_mi210(tmp_path)
    first, second = (device.uuid for device in probe.scan().devices[:2])
    usages = probe.observe([first, second])
    used = usages[first]
    assert (used.utilization_percent, used.memory_used_bytes) == (7, 297 << 20)
    assert (used.power_watts, used.temperature_celsius) == (132, 39)
    assert used.processes is not None
    assert [(p.pid, p.memory_bytes) for p in used.processes] == [(4711, 5 << 30)]
    assert usages[second].processes == ()


def test_processes_are_unknown_where_the_kernel_lists_none(tmp_path: Path) -> None:
    probe = record_mi210(tmp_path)
    shutil.rmtree(tmp_path / "sys/class/kfd/kfd/proc")
    uuid = probe.scan().devices[0].uuid
    assert probe.observe([uuid])[uuid].processes is None


def test_a_partitioned_card_stays_one_card(tmp_path: Path) -> None:
    machine = record_mi300_cpx(tmp_path).scan()
    assert [device.model for device in machine.devices] == ["MI300X", "MI300X"]
    card = machine.devices[1]
    assert card.uuid == f"GPU-{2472748907779728154:016x}"
    assert card.product == "AMD Instinct MI300X OAM"
    # The catalogue's number of compute units, and that of all partitions.
    assert card.multiprocessors == 304
    assert card.memory_bytes == 196592 << 20
    assert card.labels == {
        "compute-partition": "CPX",
        "compute-partitions": "SPX,DPX,QPX,CPX",
        "memory-partition": "NPS1",
        RUNTIME_ID: "8,9,10,11,12,13,14,15",
    }
    renders = {f"/dev/dri/renderD{minor}" for minor in range(136, 144)}
    assert set(card.device_paths) == renders | {"/dev/kfd", "/dev/dri/card9"}


def test_a_virtual_function_keeps_its_own_function_number(tmp_path: Path) -> None:
    record_mi210(tmp_path)
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties"
    write(node, node.read_text().replace("location_id 25344", "location_id 25346").rstrip())
    add_amd_card(tmp_path, "0000:63:00.2", 65520 << 20, 140, device="0x740f")
    assert AmdProbe(tmp_path).scan().devices[0].pci_address == "0000:63:00.2"


def test_a_card_without_a_number_gets_one_of_this_host(tmp_path: Path) -> None:
    record_mi210(tmp_path)
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties"
    write(node, node.read_text().replace("unique_id 1801979520617338022", "unique_id 0").rstrip())
    assert AmdProbe(tmp_path).scan().devices[0].uuid.startswith("AMD-")


def test_damage_is_seen_at_the_next_look(tmp_path: Path) -> None:
    probe = record_mi210(tmp_path)
    uuid = probe.scan().devices[0].uuid
    write(tmp_path / "sys/bus/pci/devices/0000:63:00.0/ras/umc_err_count", "ue: 1\nce: 0")
    expected = (DeviceHealth.WARNING, "1 uncorrected errors since the driver was loaded")
    assert probe.health()[uuid] == expected


def remove_kfd(root: Path) -> None:
    shutil.rmtree(root / "sys/class/kfd")


def remove_nodes(root: Path) -> None:
    shutil.rmtree(root / "sys/class/kfd/kfd/topology")


def remove_cards(root: Path) -> None:
    remove_nodes(root)
    shutil.rmtree(root / "sys/bus/pci")


def shrink_memory(root: Path) -> None:
    for path in (root / "sys/bus/pci/devices").iterdir():
        write(path / "mem_info_vram_total", 512 << 20)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (remove_kfd, "amdgpu has 4 cards, but this kernel has no KFD (CONFIG_HSA_AMD)"),
        (remove_nodes, "amdgpu has 4 cards, and the KFD can compute on none of them"),
        (remove_cards, "the driver amdgpu has no card"),
        (shrink_memory, "it found graphics within a processor only"),
    ],
)
def test_a_host_without_a_usable_card_says_why(tmp_path: Path, change: object, reason: str) -> None:
    probe = record_mi210(tmp_path)
    change(tmp_path)  # type: ignore[operator]
    assert probe.available().reason == reason
    assert not probe.available().ok
