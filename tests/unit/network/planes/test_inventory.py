"""The inventory that an admin loads: what is impossible is refused whole."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadAddress, BadPlaneInventory
from tests.support.planes import CONTENT, NQN, make_inventory

LEAF = CONTENT["leaves"][0]
NODE = CONTENT["nodes"][0]
TARGET = CONTENT["storage_targets"][0]


def test_ranges_have_both_ends_and_guids_are_numbers() -> None:
    inventory = make_inventory()
    assert list(inventory.vlans) == [101, 102]
    assert list(inventory.pkeys) == [16, 17]
    assert inventory.nodes[0].guids == (0x10, 0x11)
    assert make_inventory(vnis=None).vnis == range(0)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"vlans": "4000-4095"}, "VLANs 4000-4095 are out of range: 1 to 4094"),
        ({"vnis": "1-16777216"}, "VNIs 1-16777216 are out of range: 1 to 16777215"),
        ({"pkeys": "0x10-0x7fff"}, "partition keys 16-32767 are out of range: 1 to 32766"),
        ({"vlans": "102-101"}, "102-101 has no number: 101 is below 102"),
        ({"leaves": [LEAF, LEAF]}, "leaf leaf-1 is there 2 times"),
        ({"leaves": [{**LEAF, "prefix": "10.1.0.0/31"}]}, "30 bits at most"),
        (
            {"leaves": [LEAF, {**CONTENT["leaves"][1], "prefix": "10.1.0.0/16"}]},
            "leaf leaf-2: 10.1.0.0/16 and 10.1.0.0/24 of leaf-1 share addresses",
        ),
        (
            {"leaves": [LEAF]},
            "node node-1: rail 1 is on the unknown leaf leaf-2",
        ),
        (
            {"nodes": [NODE, {"name": "node-2", "rails": NODE["rails"]}]},
            "port leaf-1 swp1 is there 2 times",
        ),
        ({"nodes": [NODE, {"name": "node-1"}]}, "node node-1 is there 2 times"),
        (
            {"nodes": [NODE, {"name": "node-2", "guids": ["0x0010"]}]},
            "GUID 0x0000000000000010 is there 2 times",
        ),
        (
            {"nodes": [NODE, {"name": "node-2", "nqn": f"{NQN}1"}]},
            f"host NQN {NQN}1 is there 2 times",
        ),
        ({"storage_targets": [TARGET, TARGET]}, "storage target disks is there 2 times"),
        (
            {"storage_targets": [{**TARGET, "subsystems": TARGET["subsystems"] * 2}]},
            "subsystem disks nqn.2026-01.example:acme is there 2 times",
        ),
    ],
)
def test_an_impossible_inventory_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadPlaneInventory, match=fault.replace("(", r"\(")):
        make_inventory(**changes)


def test_a_refusal_names_five_faults_and_has_all() -> None:
    with pytest.raises(BadPlaneInventory, match="; and 1 more") as caught:
        make_inventory(leaves=[], vlans="0-9", pkeys="0-9")
    assert len(caught.value.details["faults"]) == 6


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadAddress, match="not an IPv4 address"):
        make_inventory(leaves=[{**LEAF, "router_id": "10.255.0"}], nodes=[])
    with pytest.raises(BadAddress):
        make_inventory(management=["172.31.0.1/24"])
