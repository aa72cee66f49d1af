"""How planes are shown."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.cli.network.planes.texts import PLANE_COLUMNS, STATE_COLUMNS, describe_plane
from gpupool.terminal.output import format_table


def make_node(name: str, **changes: Any) -> dict[str, Any]:
    state = {"node": name, "in_force": True, "reason": "as compiled", "evidence": ["a", "b"]}
    return {**state, "seen_ns": 0, **changes}


def make_plane(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    numbers = {"vlan": None, "vni": None, "pkey": None}
    plane = {"tenant": "acme", "plane": "roce", "in_force": False, "created_ns": 0, **numbers}
    return {**plane, "nodes": list(nodes), **changes}


@pytest.mark.parametrize(
    ("plane", "words"),
    [
        (make_plane(), "no: the tenant has no node"),
        (make_plane(make_node("n1"), in_force=True), "yes: on 1 of 1 nodes"),
        (make_plane(make_node("n1"), make_node("n2", in_force=False)), "no: on 1 of 2 nodes"),
        (make_plane(vlan=101, vni=4001), "vlan      101\nvni       4001"),
        (make_plane(pkey=0x10), "pkey      0x0010"),
    ],
)
def test_a_plane_says_where_it_is_in_force(plane: dict[str, Any], words: str) -> None:
    assert words in describe_plane(plane)


def test_a_list_names_the_first_node_where_it_is_not_in_force() -> None:
    nodes = (make_node("n1"), make_node("n2", in_force=False, reason="leaf-1 lacks it"))
    table = format_table([make_plane(*nodes, vlan=101)], PLANE_COLUMNS)
    assert "n2: leaf-1 lacks it" in table
    assert "vlan 101" in table


def test_a_state_without_evidence_was_never_seen() -> None:
    nodes = [make_node("n1", seen_ns=None, evidence=[], in_force=False), make_node("n2")]
    first, second = format_table(nodes, STATE_COLUMNS).splitlines()[1:]
    assert first.split()[:4] == ["n1", "no", "never", "-"]
    assert "1970-01-01" in second
    assert "a, b" in second
