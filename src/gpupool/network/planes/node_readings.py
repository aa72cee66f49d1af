"""Compares what agents read of planes on their nodes with demands and the inventory. Pure.

A reading only takes away: what it shows too much of ends a plane, and it never brings one into force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from gpupool.network.planes.model import Inventory, PlaneDemand, PlaneNode

#: Sources of evidence: read by an agent, and read too long ago.
AGENT: Final = "agent"
STALE: Final = "stale"
#: Why evidence of an agent no longer counts.
TOO_OLD: Final = "was read by its agent too long ago: is the agent of the node well?"
_GUID: Final = re.compile(r"\bguid (0x[0-9a-f]+)\b")


def name_rail_file(node: str) -> str:
    """Return the target under which the interfaces of a node's rails are reported."""
    return f"{node}.rails"


def name_host_file(node: str) -> str:
    """Return the target under which the NVMe hosts of a node and their connections are reported."""
    return f"{node}.nvme"


def find_guid_fault(node: PlaneNode, text: str) -> str:
    """Say which port of a node the inventory does not know; empty: none.

    Args:
        text: of a reading; other lists of keys have no GUIDs.
    """
    for guid in sorted(int(one, 16) for one in _GUID.findall(text)):
        if guid not in node.guids:
            return f"have {guid:#018x}, which the inventory lacks"
    return ""


def find_rail_fault(inventory: Inventory, demand: PlaneDemand, text: str) -> str:
    """Say which VLAN of another tenant a rail of a node has; empty: none."""
    for rail in json.loads(text):
        for vlan in rail["vlans"]:
            if vlan in inventory.vlans and vlan != demand.vlan:
                return f"has VLAN {vlan} on {rail['name']}, which is not {demand.tenant}'s"
    return ""


def find_host_fault(node: PlaneNode, text: str) -> str:
    """Say which NVMe host a node shows itself as that the inventory does not have; empty: none."""
    for host in json.loads(text)["hosts"]:
        if host != node.nqn:
            return f"is {host}, and {node.nqn or 'no host'} in the inventory"
    return ""


def find_foreign_connection(inventory: Inventory, tenants: Iterable[str], text: str) -> str:
    """Return a subsystem of another tenant that a node is connected to; empty: none."""
    owners: Mapping[str, str] = {
        one.nqn: one.tenant for target in inventory.targets for one in target.subsystems
    }
    own = set(tenants)
    for nqn in json.loads(text)["subsystems"]:
        if nqn in owners and owners[nqn] not in own:
            return str(nqn)
    return ""
