"""Compiles the files of all planes, and names the targets that have one. Pure."""

from __future__ import annotations

from gpupool.network.planes.leaf_configuration import (
    compile_leaves,
    name_interface_file,
    name_router_file,
)
from gpupool.network.planes.model import Plane, PlaneFacts
from gpupool.network.planes.partitions import FILE as PARTITIONS
from gpupool.network.planes.partitions import compile_partitions, name_key_file
from gpupool.network.planes.storage_access import compile_targets, name_target_file


def compile_files(facts: PlaneFacts) -> dict[str, str]:
    """Compile every file of every plane that tenants demand, by name. Deterministic.

    After the last demand the files that were reported are compiled too: they empty the targets.
    """
    files = dict[str, str]()
    if facts.inventory is None:
        return files
    for plane, compiled in (
        (Plane.ROCE, compile_leaves(facts)),
        (Plane.INFINIBAND, {PARTITIONS: compile_partitions(facts)}),
        (Plane.STORAGE, compile_targets(facts)),
    ):
        if facts.list_demands(plane) or not facts.evidence.keys().isdisjoint(compiled):
            files |= compiled
    return files


def list_targets(facts: PlaneFacts) -> set[str]:
    """List the names under which configuration can be reported."""
    inventory = facts.inventory
    if inventory is None:
        return set()
    names = {PARTITIONS}
    for leaf in inventory.leaves:
        names |= {name_router_file(leaf.name), name_interface_file(leaf.name)}
    names.update(name_key_file(node.name) for node in inventory.nodes if node.guids)
    names.update(map(name_target_file, inventory.targets))
    return names
