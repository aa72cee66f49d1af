"""Links and domains of a machine, as its document gives them."""

from pathlib import Path

import pytest

from gpupool.model.topology import LinkKind
from gpupool.probes.simulated import parse_sim


@pytest.mark.parametrize(
    ("spec", "farthest"),
    [
        ("8xH100", LinkKind.NVSWITCH),
        ("8xH200", LinkKind.NVSWITCH),
        ("8xA100-40G", LinkKind.NVSWITCH),
        ("4xL40S", LinkKind.SYSTEM),
        ("tests/machines/dgx-1v.json", LinkKind.SYSTEM),
    ],
)
def test_the_shipped_machines_are_joined_as_the_real_ones_are(
    spec: str, farthest: LinkKind
) -> None:
    path = Path(__file__).parents[3] / spec
    topology = parse_sim(str(path) if spec.endswith(".json") else spec)[0].topology
    assert topology.find_diameter(topology.devices) == farthest.distance
    assert {len(island) for island in topology.list_domains(LinkKind.NUMA)} == {
        len(topology.devices) // 2
    }


def test_every_card_of_the_cube_mesh_uses_six_links() -> None:
    (machine,) = parse_sim(str(Path(__file__).parents[2] / "machines/dgx-1v.json"))
    uuids, link_count = machine.topology.devices, machine.topology.link_count
    assert [sum(link_count(a, b) for b in uuids if a != b) for a in uuids] == [6] * 8
    assert machine.topology.list_domains(LinkKind.NVLINK) == (frozenset(uuids),)


def test_the_bridge_of_the_mixed_box_joins_two_cards_only() -> None:
    topology = parse_sim("mixed")[0].topology
    assert [len(island) for island in topology.list_domains(LinkKind.NVLINK)] == [2, 1, 1, 1]
