"""Hosts on which a maker's tool answers: the probe runs a program that prints what was recorded."""

from pathlib import Path

import pytest

from gpupool.model.device import RUNTIME_ID, DeviceHealth
from gpupool.probes.vendors import FORMATS, CommandProbe
from tests.support.recorded_hosts import TOOLS, add_card, add_tool, record_tool_host
from tests.support.tool_outputs import HY_SMI, NPU_SMI


@pytest.mark.parametrize("vendor", FORMATS)
def test_each_maker_has_a_recorded_tool_and_a_source(vendor: str) -> None:
    name, _ = TOOLS[vendor]
    form = FORMATS[vendor]
    assert name in form.tool.names
    assert form.tool.package
    assert "github.com/" in form.source


@pytest.mark.parametrize("vendor", FORMATS)
def test_cards_have_the_name_of_their_maker_and_files_of_their_own(
    vendor: str, tmp_path: Path
) -> None:
    machine = record_tool_host(vendor, tmp_path).scan()
    form = FORMATS[vendor]
    for device in machine.devices:
        assert device.vendor == vendor
        assert device.model == device.model.upper()
        number = device.labels[RUNTIME_ID]
        own = {path.format(number=number) for path in form.card_nodes}
        assert set(device.device_paths) == {*own, *form.shared_nodes}


def test_a_card_without_identity_gets_one_of_this_host(tmp_path: Path) -> None:
    first, second = record_tool_host("ascend", tmp_path).scan().devices
    assert first.uuid.startswith("ASCEND-")
    assert first.uuid != second.uuid


def test_use_and_processes_are_those_of_the_output(tmp_path: Path) -> None:
    probe = record_tool_host("ascend", tmp_path)
    first = probe.scan().devices[0]
    used = probe.observe([first.uuid])[first.uuid]
    assert (used.power_watts, used.temperature_celsius) == (70, 42)
    assert used.processes is not None
    assert [process.pid for process in used.processes] == [37656, 37664]


def test_a_change_in_the_output_is_a_change_of_health(tmp_path: Path) -> None:
    probe = record_tool_host("ascend", tmp_path)
    uuid = probe.scan().devices[0].uuid
    text = NPU_SMI.replace("| OK            |", "| Critical      |")
    add_tool(tmp_path, "npu-smi", {"info": text})
    assert probe.health()[uuid] == (DeviceHealth.FAILED, "npu-smi says Critical")


def test_graphics_nodes_and_numa_node_are_found_by_the_address(tmp_path: Path) -> None:
    text = HY_SMI.replace('"": ""', '"PCI Bus": "0000:09:00.0"')
    add_tool(tmp_path, "hy-smi", {"*": text})
    home = add_card(tmp_path, "0000:09:00.0", "hycu", numa_node=1)
    (home / "drm/renderD128").mkdir(parents=True)
    probe = CommandProbe(FORMATS["hygon"], tmp_path, str(tmp_path / "bin"))
    (device,) = probe.scan().devices
    assert (device.device_paths, device.numa_node) == (("/dev/dri/renderD128",), 1)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (None, "npu-smi was not found: install the Ascend driver"),
        ({"info": "no table\n"}, "npu-smi lists no card with memory"),
        ({"help": ""}, "failed with code 2: unknown option: info"),
    ],
)
def test_a_tool_that_does_not_answer_says_why(
    tmp_path: Path, answers: dict[str, str] | None, reason: str
) -> None:
    if answers is not None:
        add_tool(tmp_path, "npu-smi", answers)
    available = CommandProbe(FORMATS["ascend"], tmp_path, str(tmp_path / "bin")).available()
    assert not available.ok
    assert available.reason.endswith(reason)
