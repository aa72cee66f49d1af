"""Findings: what is wrong with the RoCE plane of nodes, which hinders no other node."""

from __future__ import annotations

from typing import Any

from gpupool.network.planes.inventory_checks import list_findings
from tests.support.planes import CONTENT, make_inventory

SETTINGS: dict[str, Any] = {"pfc_priority": 3, "dscp": 26, "ecn": True}


def make_nodes(*swapped: str) -> list[dict[str, Any]]:
    """Make three nodes; rails of the swapped ones end on the other leaf."""
    nodes = list[dict[str, Any]]()
    for n in (1, 2, 3):
        rails = [{"leaf": f"leaf-{rail}", "port": f"swp{n}"} for rail in (1, 2)]
        name = f"node-{n}"
        nodes.append({"name": name, "rails": rails[::-1] if name in swapped else rails})
    return nodes


def test_an_inventory_as_it_should_be_has_no_findings() -> None:
    assert list_findings(make_inventory()) == {}
    assert list_findings(make_inventory(lossless=SETTINGS)) == {}


def test_swapped_rails_are_found_on_the_node_that_differs() -> None:
    assert list_findings(make_inventory(nodes=make_nodes("node-2"))) == {
        "node-2": [
            "rail 0 is on leaf-2 swp2; rail 0 of the others is on leaf-1",
            "rail 1 is on leaf-1 swp2; rail 1 of the others is on leaf-2",
        ]
    }


def test_another_pod_has_its_own_leaves() -> None:
    nodes = make_nodes("node-3")
    nodes[2]["pod"] = "b"
    assert list_findings(make_inventory(nodes=nodes)) == {}


def test_settings_that_differ_lose_packets() -> None:
    nodes = make_nodes()
    nodes[0]["lossless"] = {**SETTINGS, "ecn": False}
    leaves = [dict(leaf) for leaf in CONTENT["leaves"]]
    leaves[1]["lossless"] = {**SETTINGS, "pfc_priority": 4, "dscp": 24}
    found = list_findings(make_inventory(nodes=nodes, leaves=leaves, lossless=SETTINGS))
    of_leaf = ["leaf-2 has PFC priority 4; the plane has 3", "leaf-2 has DSCP 24; the plane has 26"]
    assert found == {
        "node-1": ["the node has ECN off; the plane has on", *of_leaf],
        "node-2": of_leaf,
        "node-3": of_leaf,
    }
