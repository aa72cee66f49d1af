"""An inventory of planes with two leaves and two nodes, and the house that loads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gpupool.network.planes.files import compile_files
from gpupool.network.planes.inventory import parse_inventory
from gpupool.network.planes.model import Evidence, Inventory, PlaneDemand, PlaneFacts
from gpupool.wire.network.planes import PlaneInventory

NQN = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000"
#: Rail i of a node ends on leaf i.
CONTENT: dict[str, Any] = {
    "leaves": [
        {
            "name": f"leaf-{n}",
            "asn": 64600 + n,
            "router_id": f"10.255.0.{n}",
            "prefix": f"10.{n}.0.0/24",
        }
        for n in (1, 2)
    ],
    "nodes": [
        {
            "name": f"node-{n}",
            "rails": [{"leaf": f"leaf-{rail}", "port": f"swp{n}"} for rail in (1, 2)],
            "guids": [f"0x{n}0", f"0x{n}1"],
            "nqn": f"{NQN}{n}",
        }
        for n in (1, 2)
    ],
    "storage_targets": [
        {"name": "disks", "subsystems": [{"nqn": "nqn.2026-01.example:acme", "tenant": "acme"}]}
    ],
    "vlans": "101-102",
    "vnis": "4001-4002",
    "pkeys": "0x0010-0x0011",
    "management": ["172.31.0.0/24"],
}


def make_content(**changes: Any) -> PlaneInventory:
    return PlaneInventory.model_validate({**CONTENT, **changes})


def make_inventory(**changes: Any) -> Inventory:
    return parse_inventory(make_content(**changes))


def make_facts(
    demands: tuple[PlaneDemand, ...],
    owners: Mapping[str, str],
    evidence: Mapping[str, Evidence] = MappingProxyType({}),
    inventory: Inventory | None = None,
) -> PlaneFacts:
    """Make facts of a pool of the nodes of the inventory, without an engine of networks."""
    wanted = inventory or make_inventory()
    names = tuple(node.name for node in wanted.nodes)
    return PlaneFacts(wanted, demands, owners, evidence, names, {}, {}, {})


def apply_files(facts: PlaneFacts, **changes: str) -> PlaneFacts:
    """Return facts with every compiled file as evidence, or another text in its place."""
    files = {**compile_files(facts), **changes}
    evidence = {name: Evidence(name, text, "hash", "root", 7) for name, text in files.items()}
    return replace(facts, evidence={**facts.evidence, **evidence})
