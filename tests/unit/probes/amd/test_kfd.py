"""Agents of the KFD as recorded on MI210 and MI300X, and processes on them."""

from pathlib import Path

import pytest

from gpupool.probes.amd.kfd import KfdNode, read_nodes, read_processes
from tests.support.recorded_hosts import (
    MI300_PROPERTIES,
    add_kfd_node,
    record_mi210,
    record_mi300_cpx,
    write,
)


def test_processors_are_no_agents_and_cards_are_in_order(tmp_path: Path) -> None:
    record_mi210(tmp_path)
    nodes = read_nodes(tmp_path / "sys")
    assert [node.number for node in nodes] == [2, 3, 4, 5]
    assert [node.address for node in nodes] == [
        *("0000:63:00.0", "0000:43:00.0", "0000:03:00.0", "0000:26:00.0"),
    ]
    assert {node.compute_units for node in nodes} == {104}
    assert {node.target for node in nodes} == {"gfx90a"}
    assert nodes[0].links == {3: 1, 4: 1, 5: 1}


def test_a_partition_has_the_address_of_its_card_with_its_own_function(tmp_path: Path) -> None:
    record_mi300_cpx(tmp_path)
    nodes = read_nodes(tmp_path / "sys")
    assert len(nodes) == 16
    # As recorded: nodes 4, 5 and 12 of topo-mi300-cpx.
    recorded = {4: (1282, 130), 5: (1283, 131), 12: (9986, 138)}
    by_number = {node.number: node for node in nodes}
    for number, (location, minor) in recorded.items():
        properties = by_number[number].properties
        assert (properties["location_id"], properties["drm_render_minor"]) == (location, minor)
    assert by_number[4].address == "0000:05:00.2"
    assert by_number[4].compute_units == 38
    assert by_number[4].target == "gfx942"


def test_agents_of_other_makers_and_unreadable_ones_are_left_out(tmp_path: Path) -> None:
    hygon = MI300_PROPERTIES.replace("vendor_id 4098", "vendor_id 7572")
    add_kfd_node(tmp_path, 1, hygon.format(location=0, minor=0, unique=0))
    # What a cgroup forbids to see is an empty file.
    write(tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties", "")
    assert read_nodes(tmp_path / "sys") == ()
    assert read_nodes(tmp_path / "elsewhere") == ()


def test_memory_is_that_of_the_banks_on_the_card(tmp_path: Path) -> None:
    # Values: topology-parsing of ROCm/k8s-device-plugin.
    properties = MI300_PROPERTIES.format(location=6400, minor=128, unique=1)
    add_kfd_node(tmp_path, 1, properties)
    bank = tmp_path / "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties"
    write(bank, "heap_type 1\nsize_in_bytes 17163091968\nflags 0\nwidth 2048")
    assert read_nodes(tmp_path / "sys")[0].memory_bytes == 17163091968
    write(bank, "heap_type 0\nsize_in_bytes 17163091968")
    assert read_nodes(tmp_path / "sys")[0].memory_bytes == 0


@pytest.mark.parametrize(("version", "target"), [(110001, "gfx1101"), (90402, "gfx942"), (0, "")])
def test_instruction_sets_are_named_as_in_rocm(version: int, target: str) -> None:
    assert KfdNode(1, 2, "", {"gfx_target_version": version}).target == target


def test_a_process_is_on_a_card_by_its_memory_or_a_queue(tmp_path: Path) -> None:
    process = tmp_path / "sys/class/kfd/kfd/proc/4711"
    for number, size in ((2000, 0), (3000, 64 << 20), (4000, 0)):
        write(process / f"vram_{number}", size)
    write(process / "queues/0/gpuid", 4000)
    write(process / "sdma_2000", 17)
    assert read_processes(tmp_path / "sys") == {3000: {4711: 64 << 20}, 4000: {4711: 0}}
    assert read_processes(tmp_path / "elsewhere") is None
