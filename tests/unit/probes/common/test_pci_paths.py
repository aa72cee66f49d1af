"""How near cards are on the bus, by the bridges that they share."""

from dataclasses import replace
from pathlib import Path

from gpupool.model.topology import LinkKind
from gpupool.probes.common.pci_paths import build_topology, list_drm_nodes
from gpupool.probes.simulated import parse_sim
from tests.support.recorded_hosts import add_card


def test_cards_below_one_port_share_a_switch_and_one_root_a_bridge(tmp_path: Path) -> None:
    switch = "0000:00:01.1/0000:40:00.0"
    places = (
        ("0000:43:00.0", f"{switch}/0000:41:00.0"),
        ("0000:44:00.0", f"{switch}/0000:41:01.0"),
        ("0000:51:00.0", "0000:00:03.1"),
    )
    for address, bridge in places:
        add_card(tmp_path, address, "amdgpu", bridge=bridge)
    made = parse_sim("4xMI300X")[0].devices
    addresses = [address for address, _ in places]
    devices = tuple(
        replace(card, pci_address=address, numa_node=0 if address else None)
        for card, address in zip(made, [*addresses, None], strict=True)
    )
    a, b, c, unknown = (device.uuid for device in devices)
    found = build_topology(devices, tmp_path / "sys")
    assert found.find_kind(a, b) is LinkKind.PCIE_SWITCH
    assert found.find_kind(a, c) is LinkKind.HOST_BRIDGE
    assert found.find_kind(a, unknown) is LinkKind.SYSTEM
    assert set(found.numa) == {a, b, c}


def test_graphics_nodes_are_those_of_the_card_and_no_connector(tmp_path: Path) -> None:
    home = add_card(tmp_path, "0000:43:00.0", "amdgpu")
    for name in ("card1", "renderD129", "card1-DP-1", "controlD65"):
        (home / "drm" / name).mkdir(parents=True)
    sys_root = tmp_path / "sys"
    nodes = list_drm_nodes("0000:43:00.0", sys_root)
    assert nodes == ("/dev/dri/card1", "/dev/dri/renderD129")
    assert list_drm_nodes("0000:44:00.0", sys_root) == ()
    assert list_drm_nodes(None, sys_root) == ()
