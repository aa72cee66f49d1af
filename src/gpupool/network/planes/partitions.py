"""Compiles the InfiniBand plane to a partitions file of opensm(8), and reads such files and keys of ports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpupool.network.planes.model import Inventory, Plane, PlaneDemand, PlaneFacts, PlaneNode

FILE: Final = "partitions.conf"
#: Bit of a partition key that makes a port a full member (InfiniBand Architecture, 10.9.3).
FULL: Final = 0x8000
#: Key of the partition in which ports reach the subnet manager.
DEFAULT_KEY: Final = 0x7FFF
#: Of a partition of a file that names no key: opensm makes one.
_UNKNOWN: Final = -1
_HEAD = re.compile(r"^\s*(?P<name>[^=,:]*)=\s*(?P<key>0[xX][0-9a-fA-F]+|\d+)")
_SPACES = re.compile(r"\s*=\s*")
_KEYS = re.compile(r"\b0x[0-9a-fA-F]{4}\b")
_OCTAL = re.compile(r"0[0-9]+")
_SEPARATORS = re.compile(r"[\s,:]+")


@dataclass(frozen=True)
class Partition:
    """A partition of a file.

    Attributes:
        key: without the bit of full members.
        members: by GUID, full and limited ones.
        full: those that reach every member; limited ones reach full ones.
        everyone: what every port is in it, as `full` or `limited`; empty: not a member.
    """

    key: int
    members: frozenset[int]
    full: frozenset[int]
    everyone: str = ""


def name_key_file(node: str) -> str:
    """Return the target under which the keys of a node's own ports are reported."""
    return f"{node}.pkeys"


def compile_partitions(facts: PlaneFacts) -> str:
    """Compile the partitions of all tenants. Deterministic.

    In the default partition ports are limited members: they reach the subnet manager, and not each other.
    """
    lines = [
        "# InfiniBand plane, by gpupool: a partitions file of opensm",
        "Default=0x7fff : ALL=limited, SELF=full ;",
    ]
    inventory = facts.inventory
    demands = facts.list_demands(Plane.INFINIBAND)
    for demand in sorted(demands, key=lambda one: one.pkey):
        guids = sorted(list_guids(facts, inventory, demand.tenant)) if inventory else []
        if guids:
            members = ", ".join(f"{guid:#018x}=full" for guid in guids)
            lines.append(f"{demand.tenant}={demand.pkey:#06x} : {members} ;")
    return "\n".join(lines) + "\n"


def list_guids(facts: PlaneFacts, inventory: Inventory, tenant: str) -> set[int]:
    """List the ports of the nodes of a tenant."""
    found = set[int]()
    for node in inventory.nodes:
        if facts.owners.get(node.name) == tenant:
            found.update(node.guids)
    return found


def read_partitions(text: str) -> tuple[Partition, ...]:
    """Read a partitions file; what is no partition is left out."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    found = list[Partition]()
    for part in " ".join(lines).split(";"):
        head, _, body = part.partition(":")
        if head.strip():
            found.append(_read_partition(head, body))
    return tuple(found)


def _read_partition(head: str, body: str) -> Partition:
    match = _HEAD.match(head)
    if match is not None:
        number = _read_number(match["key"])
        key = _UNKNOWN if number is None else number & ~FULL
    else:
        name = head.partition(",")[0].strip()
        key = DEFAULT_KEY if name == "Default" else _UNKNOWN
    members = set[int]()
    full = set[int]()
    everyone = ""
    usual = "limited"
    for word in _SEPARATORS.split(_SPACES.sub("=", f"{head},{body}")):
        name, _, kind = word.partition("=")
        if name == "defmember":
            usual = kind
            continue
        is_full = (kind or usual) in ("full", "both")
        if name.startswith("ALL"):
            everyone = "full" if is_full or everyone == "full" else "limited"
        elif name[:1].isdigit():
            guid = _read_number(name)
            members |= set() if guid is None else {guid}
            full |= set() if guid is None or not is_full else {guid}
    return Partition(key, frozenset(members), frozenset(full), everyone)


def _read_number(text: str) -> int | None:
    """Read a number as strtoul(3) does without a base, as opensm; None: it is none."""
    try:
        return int(text, 8 if _OCTAL.fullmatch(text) else 0)
    except ValueError:
        return None


def read_port_keys(text: str) -> frozenset[int]:
    """Read keys of a node's ports, as files of `/sys/class/infiniband/*/ports/*/pkeys` have them.

    Args:
        text: such files, or what `smpquery pkeys` prints.

    Raises ValueError: there is no key.
    """
    keys = {int(key, 16) for key in _KEYS.findall(text)}
    if not keys:
        raise ValueError("there is no partition key")
    return frozenset(keys - {0})


def find_partition_fault(
    node: PlaneNode, demand: PlaneDemand, allowed: Iterable[int], partitions: Iterable[Partition]
) -> str:
    """Say why the ports of a node are not in their tenant's partition alone; empty: they are.

    Args:
        allowed: GUIDs of all nodes of the tenant.
    """
    mine = set[int]()
    name = f"partition {demand.pkey:#06x}"
    for partition in partitions:
        if partition.key == demand.pkey:
            mine |= partition.full
            foreign = sorted(partition.members.difference(allowed))
            if partition.everyone or foreign:
                member = "every port" if partition.everyone else f"{foreign[0]:#018x}"
                return f"has {member} in {name} of {demand.tenant}"
        elif fault := _find_other_membership(node, partition):
            return fault
    for guid in node.guids:
        if guid not in mine:
            return f"lacks {guid:#018x} as a full member of {name}"
    return ""


def _find_other_membership(node: PlaneNode, partition: Partition) -> str:
    """Say where the ports of a node reach others by a partition that is not their tenant's."""
    if partition.key == DEFAULT_KEY:
        # Limited members reach the subnet manager alone.
        if partition.everyone == "full":
            return "has every port as a full member of the default partition"
        found = partition.full.intersection(node.guids)
    else:
        if partition.everyone:
            return f"has every port in {_describe_key(partition)} too"
        found = partition.members.intersection(node.guids)
    return f"has {min(found):#018x} in {_describe_key(partition)} too" if found else ""


def _describe_key(partition: Partition) -> str:
    return "a partition without a key" if partition.key < 0 else f"partition {partition.key:#06x}"


def find_key_fault(demand: PlaneDemand, keys: frozenset[int]) -> str:
    """Say why the keys of a node's ports are not those of its tenant; empty: they are."""
    if not any(key & ~FULL == demand.pkey for key in keys):
        return f"lack {demand.pkey | FULL:#06x}"
    others = sorted(key for key in keys if key & ~FULL not in (demand.pkey, DEFAULT_KEY))
    if others:
        return f"have {others[0]:#06x} too"
    if 0xFFFF in keys:
        return "are full members of the default partition (0xffff)"
    return ""
