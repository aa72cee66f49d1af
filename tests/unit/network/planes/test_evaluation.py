"""Which planes are in force on which nodes: every doubt is a no."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.network.planes.evaluation import (
    evaluate_planes,
    list_closed_nodes,
    list_nodes,
    list_ready_nodes,
)
from gpupool.network.planes.files import compile_files, list_targets
from gpupool.network.planes.model import (
    EngineState,
    Evidence,
    Plane,
    PlaneDemand,
    PlaneFacts,
    PlaneState,
)
from tests.support.planes import CONTENT, NQN, apply_files, make_facts, make_inventory

ROCE = PlaneDemand("acme", Plane.ROCE, vlan=101, vni=4001)
OTHER = PlaneDemand("other", Plane.ROCE, vlan=102, vni=4002)
INFINIBAND = PlaneDemand("acme", Plane.INFINIBAND, pkey=0x10)
STORAGE = PlaneDemand("acme", Plane.STORAGE)
ETHERNET = PlaneDemand("acme", Plane.ETHERNET)
MANAGEMENT = PlaneDemand("acme", Plane.MANAGEMENT)
OWNERS = {"node-1": "acme", "node-2": "other"}
READY = EngineState("ready", "", 5)


def evaluate(facts: PlaneFacts, plane: Plane, node: str = "node-1") -> PlaneState:
    (state,) = (one for one in evaluate_planes(facts) if (one.plane, one.node) == (plane, node))
    return state


def add_text(facts: PlaneFacts, target: str, text: str) -> PlaneFacts:
    evidence = {**facts.evidence, target: Evidence(target, text, "text", "root", 9)}
    return replace(facts, evidence=evidence)


def test_applied_files_are_in_force() -> None:
    facts = apply_files(make_facts((ROCE, INFINIBAND, STORAGE, OTHER), OWNERS))
    for plane, targets in (
        (Plane.ROCE, ("leaf-1.frr.conf", "leaf-1.interfaces", "leaf-2.frr.conf")),
        (Plane.INFINIBAND, ("partitions.conf",)),
        (Plane.STORAGE, ("disks.nvmet.sh",)),
    ):
        state = evaluate(facts, plane)
        assert state.is_in_force, state.reason
        assert state.targets[: len(targets)] == targets
        assert state.seen_ns == 7
        assert state.reason.endswith("as compiled")
    assert list_ready_nodes(facts)[0] == {"acme": {"node-1"}, "other": {"node-2"}}


@pytest.mark.parametrize("plane", [ROCE, INFINIBAND, STORAGE])
def test_without_a_report_nothing_is_in_force(plane: PlaneDemand) -> None:
    facts = make_facts((plane,), OWNERS)
    state = evaluate(facts, plane.plane)
    assert not state.is_in_force
    assert "was never reported" in state.reason
    assert state.seen_ns is None
    assert list_ready_nodes(facts)[0] == {"acme": set()}


def test_each_file_of_a_leaf_counts() -> None:
    facts = apply_files(make_facts((ROCE,), OWNERS))
    for name in ("leaf-1.frr.conf", "leaf-2.interfaces"):
        less = {key: one for key, one in facts.evidence.items() if key != name}
        state = evaluate(replace(facts, evidence=less), Plane.ROCE)
        assert (state.is_in_force, name in state.reason) == (False, True)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", ""),
        (
            "bridge-access 102",
            "bridge-access 101",
            "has swp2 in VLAN 101, which is no port of acme",
        ),
        (
            "bridge-access 102",
            "bridge-vids 100-110",
            "has swp2 in VLAN 101, which is no port of acme",
        ),
        ("    bridge-access 102\n", "", "has swp2 in VLAN 101, which is no port of acme"),
    ],
)
def test_a_foreign_port_in_the_vlan_of_a_tenant_ends_the_plane(
    old: str, new: str, fault: str
) -> None:
    facts = apply_files(make_facts((ROCE, OTHER), OWNERS))
    text = compile_files(facts)["leaf-1.interfaces"].replace(old, new, 1)
    state = evaluate(add_text(facts, "leaf-1.interfaces", text), Plane.ROCE)
    assert state.is_in_force is (fault == "")
    assert fault in state.reason


def test_a_node_with_swapped_rails_is_not_in_force() -> None:
    nodes = [dict(node) for node in CONTENT["nodes"]]
    nodes[0]["rails"] = nodes[0]["rails"][::-1]
    nodes.append({"name": "node-3", "rails": [{"leaf": "leaf-1", "port": "swp3"}]})
    facts = make_facts((ROCE,), {"node-1": "acme", "node-3": "acme"})
    facts = apply_files(replace(facts, inventory=make_inventory(nodes=nodes)))
    assert "rail 0 is on leaf-2" in evaluate(facts, Plane.ROCE).reason
    assert evaluate(facts, Plane.ROCE, "node-3").is_in_force


@pytest.mark.parametrize(
    ("node", "plane", "reason"),
    [
        ({"name": "node-1"}, ROCE, "the inventory has no rails of node-1"),
        ({"name": "node-1"}, INFINIBAND, "the inventory has no GUIDs of node-1"),
        ({"name": "node-1"}, STORAGE, "the inventory has no host NQN of node-1"),
        ({"name": "node-9"}, ROCE, "node-1 is not in the inventory of planes"),
    ],
)
def test_a_node_that_the_inventory_lacks_is_not_in_force(
    node: dict[str, str], plane: PlaneDemand, reason: str
) -> None:
    facts = make_facts((plane,), OWNERS, inventory=make_inventory(nodes=[node]))
    assert evaluate(apply_files(facts), plane.plane).reason.startswith(reason)


def test_a_node_that_went_back_is_closed_until_targets_are_without_it() -> None:
    applied = apply_files(make_facts((ROCE, INFINIBAND, STORAGE), {"node-1": "acme"}))
    released = replace(applied, owners={})
    assert list_closed_nodes(released) == {
        "node-1": "node-1 is still in VLAN 101 on leaf-1 swp1",
    }
    for names, reason in (
        (("leaf-1.interfaces", "leaf-2.interfaces"), "node-1 is still in partition 0x0010"),
        (("partitions.conf",), "node-1 is still let into storage of another tenant by disks"),
    ):
        files = compile_files(released)
        for name in names:
            released = add_text(released, name, files[name])
        assert list_closed_nodes(released) == {"node-1": reason}
    assert list_closed_nodes(apply_files(released)) == {}


def test_a_node_in_the_vlan_of_another_tenant_is_not_in_force() -> None:
    applied = apply_files(make_facts((ROCE, OTHER), {"node-1": "other", "node-2": "other"}))
    moved = replace(applied, owners={"node-1": "acme", "node-2": "other"})
    state = evaluate(moved, Plane.ROCE)
    assert not state.is_in_force
    assert state.reason.startswith("node-1 is still in VLAN 102 on leaf-1 swp1")
    assert evaluate(apply_files(moved), Plane.ROCE).is_in_force


def test_a_number_that_was_of_another_tenant_is_in_force_without_its_nodes() -> None:
    applied = apply_files(make_facts((ROCE, INFINIBAND), {"node-1": "acme"}))
    heirs = (replace(ROCE, tenant="other"), replace(INFINIBAND, tenant="other"))
    facts = replace(applied, demands=heirs, owners={"node-2": "other"})
    assert "node-1" in list_closed_nodes(facts)
    assert not evaluate(facts, Plane.ROCE, "node-2").is_in_force
    text = compile_files(facts)["partitions.conf"].replace("0x0000000000000020", "0x10=full, 0x20")
    joined = add_text(apply_files(facts), "partitions.conf", text)
    assert "has 0x0000000000000010 in" in evaluate(joined, Plane.INFINIBAND, "node-2").reason
    assert list_ready_nodes(apply_files(facts))[0] == {"other": {"node-2"}}


def test_keys_that_were_read_from_ports_decide_too() -> None:
    facts = apply_files(make_facts((INFINIBAND,), OWNERS))
    good = evaluate(add_text(facts, "node-1.pkeys", "0x7fff\n0x8010\n"), Plane.INFINIBAND)
    assert (good.is_in_force, good.targets) == (True, ("partitions.conf", "node-1.pkeys"))
    bad = evaluate(add_text(facts, "node-1.pkeys", "0x7fff\n0x8011\n"), Plane.INFINIBAND)
    assert bad.reason == "the ports of node-1 lack 0x8010"


def test_jobs_of_others_keep_a_plane_from_being_in_force() -> None:
    facts = apply_files(make_facts((ROCE,), OWNERS))
    busy = replace(facts, guests={"node-1": 1})
    assert evaluate(busy, Plane.ROCE).reason == "1 job of another tenant runs on node-1"
    assert (
        "2 jobs of others run" in evaluate(replace(facts, guests={"node-1": 2}), Plane.ROCE).reason
    )


def test_ethernet_is_in_force_where_the_engine_is_ready() -> None:
    facts = make_facts((ETHERNET,), {})
    assert "has no default network" in evaluate(facts, Plane.ETHERNET).reason
    facts = replace(facts, default_networks={"acme": "lab"})
    assert "node-1 is no part of the engine" in evaluate(facts, Plane.ETHERNET).reason
    failed = EngineState("failed", "no module", 5)
    facts = replace(facts, engine={"node-1": READY, "node-2": failed})
    state = evaluate(facts, Plane.ETHERNET)
    assert (state.is_in_force, state.targets, state.seen_ns) == (True, ("engine",), 5)
    assert evaluate(facts, Plane.ETHERNET, "node-2").reason.endswith("is failed: no module")
    assert list_ready_nodes(facts)[0] == {"acme": {"node-1"}}


def test_management_is_in_force_where_nothing_leads_to_it() -> None:
    facts = make_facts((MANAGEMENT,), {})
    assert evaluate(facts, Plane.MANAGEMENT).is_in_force
    exposed = replace(facts, exposures={"acme": ("a way", "another")})
    assert evaluate(exposed, Plane.MANAGEMENT).reason == "a way (and 1 more)"
    unknown = replace(facts, inventory=make_inventory(management=[]))
    assert "no management prefixes" in evaluate(unknown, Plane.MANAGEMENT).reason


def test_a_demand_of_a_plane_of_nodes_limits_the_tenant_to_its_own() -> None:
    assert list_nodes(make_facts((ROCE,), OWNERS), "acme") == ["node-1"]
    assert list_nodes(make_facts((ETHERNET,), OWNERS), "acme") == ["node-1"]
    assert list_nodes(make_facts((ETHERNET,), {"node-2": "other"}), "acme") == ["node-1"]
    assert list_nodes(make_facts((ETHERNET,), {}), "acme") == ["node-1", "node-2"]


def test_a_tenant_without_nodes_of_its_own_gets_no_node_that_is_still_in_a_plane() -> None:
    applied = apply_files(make_facts((ROCE,), {"node-1": "acme"}))
    lab = PlaneDemand("lab", Plane.MANAGEMENT)
    facts = replace(applied, owners={}, demands=(lab,))
    assert list_ready_nodes(facts)[0] == {"lab": {"node-2"}}


def test_the_inventory_decides_which_targets_there_are() -> None:
    facts = make_facts((), {})
    assert list_targets(facts) == {
        *("partitions.conf", "disks.nvmet.sh", "node-1.pkeys", "node-2.pkeys"),
        *("leaf-1.frr.conf", "leaf-1.interfaces", "leaf-2.frr.conf", "leaf-2.interfaces"),
    }
    assert list_targets(replace(facts, inventory=None)) == set()
    assert compile_files(replace(facts, inventory=None)) == {}


def test_files_are_compiled_for_planes_that_are_demanded_or_were_reported() -> None:
    assert compile_files(make_facts((), OWNERS)) == {}
    assert set(compile_files(make_facts((INFINIBAND,), OWNERS))) == {"partitions.conf"}
    applied = apply_files(make_facts((STORAGE,), OWNERS))
    emptied = compile_files(replace(applied, demands=(), owners={}))
    assert NQN not in emptied["disks.nvmet.sh"]
