"""What nodes show themselves against what tenants demand."""

from __future__ import annotations

import json

import pytest

from gpupool.network.planes.model import Plane, PlaneDemand
from gpupool.network.planes.node_readings import (
    find_foreign_connection,
    find_guid_fault,
    find_host_fault,
    find_rail_fault,
)
from tests.support.planes import NQN, make_inventory

INVENTORY = make_inventory()
NODE = INVENTORY.nodes[0]
ROCE = PlaneDemand("acme", Plane.ROCE, vlan=101, vni=4001)
OWN = "nqn.2026-01.example:acme"


def test_ports_that_the_inventory_lacks_are_a_fault() -> None:
    known = "mlx5_0/1 guid 0x0000000000000010 keys 0x8010\n"
    assert find_guid_fault(NODE, known) == ""
    text = known + "mlx5_9/1 guid 0x00000000000000ff keys 0x8010\n"
    assert find_guid_fault(NODE, text) == "have 0x00000000000000ff, which the inventory lacks"
    # Files of sysfs have keys alone.
    assert find_guid_fault(NODE, "0xffff\n0x8010\n") == ""


@pytest.mark.parametrize(
    ("vlans", "fault"),
    [
        ([], ""),
        ([101], ""),
        # No number of a tenant.
        ([7], ""),
        ([101, 102], "has VLAN 102 on eth2, which is not acme's"),
    ],
)
def test_a_vlan_of_another_tenant_is_a_fault(vlans: list[int], fault: str) -> None:
    text = json.dumps([{"name": "eth2", "vlans": vlans, "masters": []}])
    assert find_rail_fault(INVENTORY, ROCE, text) == fault


def test_a_host_of_another_name_is_a_fault() -> None:
    text = json.dumps({"hosts": [f"{NQN}1"], "subsystems": []})
    assert find_host_fault(NODE, text) == ""
    text = json.dumps({"hosts": [f"{NQN}1", f"{NQN}2"], "subsystems": []})
    assert find_host_fault(NODE, text) == f"is {NQN}2, and {NQN}1 in the inventory"


def test_connections_to_storage_of_others_are_named() -> None:
    text = json.dumps({"hosts": [], "subsystems": ["nqn.2019-08.org:site", OWN]})
    assert find_foreign_connection(INVENTORY, ["acme"], text) == ""
    assert find_foreign_connection(INVENTORY, [], text) == OWN
