"""Intel hosts: with the maker's tool, without it, and with integrated graphics alone."""

from pathlib import Path

from gpupool.model.device import RUNTIME_ID, DeviceHealth
from gpupool.probes.intel import IntelProbe
from tests.support.recorded_hosts import add_intel_card, record_intel, write
from tests.unit.probes.common.test_drm_clients import open_file


def test_the_discrete_card_alone_is_listed(tmp_path: Path) -> None:
    machine = record_intel(tmp_path).scan()
    (card,) = machine.devices
    assert card.uuid == "00000000-0000-0000-0000-020a00008086"
    assert card.memory_bytes == 32768 << 20
    assert card.device_paths == ("/dev/dri/renderD129",)
    assert (card.health, card.driver_version) == (DeviceHealth.OK, "16929133")
    # Level Zero counts the integrated graphics first.
    assert card.labels == {RUNTIME_ID: "1"}


def test_figures_come_from_the_tool_and_processes_from_their_files(tmp_path: Path) -> None:
    probe = record_intel(tmp_path)
    text = (
        "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:4d:00.0\ndrm-resident-vram0:\t64 MiB\n"
    )
    open_file(tmp_path / "proc", 100, 5, "/dev/dri/renderD129", text)
    uuid = probe.scan().devices[0].uuid
    used = probe.observe([uuid])[uuid]
    assert (used.utilization_percent, used.power_watts, used.temperature_celsius) == (0, 45, 53)
    assert used.processes is not None
    assert [(p.pid, p.memory_bytes) for p in used.processes] == [(100, 64 << 20)]


def test_without_the_tool_the_kernel_tells_the_size(tmp_path: Path) -> None:
    add_intel_card(tmp_path, "0000:4d:00.0", 128)
    (tmp_path / "proc").mkdir()
    probe = IntelProbe(tmp_path, str(tmp_path / "bin"))
    assert probe.available().reason == (
        "the memory of 1 cards is unknown: xpu-smi was not found: "
        "install Intel XPU Manager (xpu-smi), or use Linux 6.14 or newer"
    )
    write(tmp_path / "sys/fs/cgroup/dmem.capacity", "drm/0000:4d:00.0/vram0 17179869184")
    (card,) = probe.scan().devices
    assert (card.memory_bytes, card.model) == (16 << 30, "8086:020a")
    assert card.uuid.startswith("INTEL-")
    assert card.health is DeviceHealth.UNKNOWN
    used = probe.observe([card.uuid])[card.uuid]
    assert (used.utilization_percent, used.memory_used_bytes) == (None, None)


def test_integrated_graphics_are_no_cards(tmp_path: Path) -> None:
    add_intel_card(tmp_path, "0000:00:02.0", 128, **{"class": "0x030000"})
    reason = IntelProbe(tmp_path, str(tmp_path)).available().reason
    assert reason == "the drivers xe and i915 have no discrete card"
