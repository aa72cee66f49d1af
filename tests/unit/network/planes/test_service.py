"""Demands, nodes and inventories of planes: who may do what, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import (
    BadPlaneInventory,
    NameTaken,
    NoPermission,
    NotFound,
    StillInUse,
    TooManyNetworks,
    UnknownPlane,
    WrongState,
)
from gpupool.wire.network.planes import PlaneDemandIn, PlaneNodesIn, PlaneOut
from tests.support.planes import CONTENT, make_content
from tests.unit.network.planes.conftest import NO_NUMBERS, PlaneHouse

NUMBERS = PlaneDemandIn(vlan=102, vni=4002)


def demand(house: PlaneHouse, plane: str, **numbers: int) -> PlaneOut:
    body = PlaneDemandIn.model_validate(numbers)
    return house.allocations.planes.demand_plane(house.admin, plane, body, "acme")


def count_demands(house: PlaneHouse) -> int:
    return len(house.allocations.planes.list_planes(house.admin))


def test_a_tenant_gets_free_numbers_and_an_admin_chooses(house: PlaneHouse) -> None:
    planes = house.allocations.planes
    made = planes.demand_plane(house.manager, "roce", NO_NUMBERS)
    assert (made.tenant, made.vlan, made.vni, made.pkey) == ("acme", 101, 4001, None)
    assert made.in_force is False
    with pytest.raises(NoPermission, match="numbers of planes are an admin's"):
        planes.demand_plane(house.stranger, "roce", NUMBERS)
    assert planes.demand_plane(house.admin, "roce", NUMBERS, "other").vlan == 102
    assert demand(house, "infiniband").pkey == 0x10


def test_a_demand_again_changes_nothing(house: PlaneHouse) -> None:
    first = demand(house, "roce")
    assert demand(house, "roce") == first
    assert demand(house, "roce", vlan=101) == first
    with pytest.raises(WrongState, match="is demanded with vlan 101, not 102"):
        demand(house, "roce", vlan=102)


def test_tenants_see_and_end_their_own_demands_alone(house: PlaneHouse) -> None:
    planes = house.allocations.planes
    planes.demand_plane(house.manager, "roce", NO_NUMBERS)
    assert planes.list_planes(house.stranger) == []
    with pytest.raises(NotFound):
        planes.get_plane(house.stranger, "roce", "acme")
    with pytest.raises(NotFound):
        planes.release_plane(house.stranger, "roce", "acme")
    with pytest.raises(UnknownPlane, match="other demands no plane 'roce'"):
        planes.release_plane(house.stranger, "roce")
    with pytest.raises(UnknownPlane, match="no plane 'nvlink'"):
        planes.demand_plane(house.manager, "nvlink", NO_NUMBERS)
    assert count_demands(house) == 1


def test_impossible_numbers_are_refused_and_nothing_is_made(house: PlaneHouse) -> None:
    house.allocations.planes.demand_plane(house.admin, "roce", NUMBERS, "other")
    cases: tuple[tuple[str, dict[str, int], type[Exception], str], ...] = (
        ("roce", {"vlan": 400}, WrongState, "VLAN 400 is not for tenants; 101-102 are"),
        ("roce", {"vni": 4003}, WrongState, "VNI 4003 is not for tenants; 4001-4002 are"),
        ("roce", {"vlan": 102}, NameTaken, "VLAN 102 is taken by another tenant"),
        ("roce", {"pkey": 16}, WrongState, "the plane roce has no partition key"),
        ("ethernet", {"vlan": 101}, WrongState, "the plane ethernet has no VLAN"),
    )
    for plane, numbers, error, message in cases:
        with pytest.raises(error, match=message):
            demand(house, plane, **numbers)
    assert count_demands(house) == 1


def test_a_range_without_a_free_number_is_refused(house: PlaneHouse) -> None:
    for tenant in ("acme", "other"):
        house.allocations.planes.demand_plane(house.admin, "roce", NO_NUMBERS, tenant)
    with pytest.raises(TooManyNetworks, match="all 2 VLANs 101-102 are taken"):
        house.allocations.planes.demand_plane(house.admin, "roce", NO_NUMBERS)


def test_a_plane_that_the_inventory_lacks_is_refused(house: PlaneHouse) -> None:
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("roce", {"leaves": [], "nodes": []}, "has no leaves"),
        ("roce", {"vlans": None}, "has no vlans for tenants"),
        ("infiniband", {"nodes": []}, "has no GUIDs"),
        ("storage", {"storage_targets": []}, "no storage target of the inventory has a subsystem"),
        ("management", {"management": []}, "has no management prefixes"),
    )
    for plane, changes, message in cases:
        house.allocations.planes.put_inventory(make_content(**changes))
        with pytest.raises(WrongState, match=message):
            demand(house, plane)
    assert count_demands(house) == 0
    assert demand(house, "ethernet").plane == "ethernet"


def test_an_inventory_keeps_what_tenants_have(house: PlaneHouse) -> None:
    house.demand("roce")
    before = house.allocations.planes.get_inventory()
    with pytest.raises(StillInUse, match="node node-1, VLAN 101, VNI 4001"):
        house.allocations.planes.put_inventory(make_content(nodes=[], vlans="102-103", vnis=None))
    with pytest.raises(BadPlaneInventory):
        house.allocations.planes.put_inventory(make_content(leaves=[]))
    assert house.allocations.planes.get_inventory() == before
    house.allocations.planes.release_plane(house.manager, "roce")
    assert house.allocations.planes.put_inventory(make_content(nodes=[])).findings == []


def test_an_inventory_opens_no_node_that_is_still_in_a_plane(house: PlaneHouse) -> None:
    house.demand("roce")
    house.apply_files()
    planes = house.allocations.planes
    planes.release_plane(house.manager, "roce")
    for changes in ({"nodes": CONTENT["nodes"][1:]}, {"vlans": "102-103"}):
        with pytest.raises(StillInUse, match="node-1 is still in VLAN 101 on leaf-1 swp1"):
            planes.put_inventory(make_content(**changes))
    assert planes.put_inventory(make_content(vnis="4001-4009")).inventory is not None
    house.apply_files()
    assert planes.put_inventory(make_content(nodes=[])).inventory is not None


def test_findings_of_an_inventory_are_said(house: PlaneHouse) -> None:
    nodes = [dict(node) for node in CONTENT["nodes"]]
    nodes[1]["rails"] = nodes[1]["rails"][::-1]
    found = house.allocations.planes.put_inventory(make_content(nodes=nodes)).findings
    assert "node-2" in {one.node for one in found}


def test_nodes_are_given_once_and_to_tenants_with_a_demand(house: PlaneHouse) -> None:
    planes = house.allocations.planes
    with pytest.raises(WrongState, match="acme demands no plane of nodes"):
        house.give("node-1")
    house.demand("roce")
    planes.demand_plane(house.stranger, "roce", NO_NUMBERS)
    with pytest.raises(NameTaken, match="nodes of another tenant: node-1"):
        planes.put_nodes(house.admin, PlaneNodesIn(nodes=["node-1", "node-2"]), "other")
    assert planes.get_nodes(house.stranger).nodes == []
    with pytest.raises(WrongState, match="the inventory of planes has no node 'node-7'"):
        house.give("node-1", "node-7")
    house.give("node-2")
    assert planes.get_nodes(house.manager).nodes == ["node-2"]
    house.give()
    assert planes.get_nodes(house.manager).nodes == []


def test_a_node_that_the_pool_lacks_is_refused(house: PlaneHouse) -> None:
    nodes = [*CONTENT["nodes"], {"name": "node-3"}]
    house.allocations.planes.put_inventory(make_content(nodes=nodes))
    demand(house, "roce")
    with pytest.raises(WrongState, match="the pool has no node 'node-3'"):
        house.give("node-3")
