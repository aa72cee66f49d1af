"""Finds what is wrong in an inventory of planes. Pure.

A fault makes an inventory useless, so it is refused. A finding concerns some nodes; their planes are not in force.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from gpupool.network.planes.model import Inventory, Lossless, PlaneNode

#: VLANs that devices keep for themselves (IEEE 802.1Q): 0 and 4095.
_VLANS = range(1, 4095)
#: A VNI has 24 bits (RFC 7348).
_VNIS = range(1, 1 << 24)
#: Partition keys without the bit of full members; 0x7fff is the default partition.
_PKEYS = range(1, 0x7FFF)


def list_faults(inventory: Inventory) -> list[str]:
    """List what is impossible, as sentences; the order is that of the inventory."""
    return [
        *_check_range("VLANs", inventory.vlans, _VLANS),
        *_check_range("VNIs", inventory.vnis, _VNIS),
        *_check_range("partition keys", inventory.pkeys, _PKEYS),
        *_check_leaves(inventory),
        *_check_nodes(inventory),
        *_check_storage(inventory),
    ]


def list_findings(inventory: Inventory) -> dict[str, list[str]]:
    """List what is wrong with the RoCE plane of nodes, by node."""
    found: dict[str, list[str]] = defaultdict(list)
    usual = _find_usual_leaves(inventory)
    leaves = {leaf.name: leaf for leaf in inventory.leaves}
    for node in inventory.nodes:
        for rail, port in enumerate(node.rails):
            expected = usual[node.pod, rail]
            if port.leaf != expected:
                found[node.name].append(
                    f"rail {rail} is on {port.leaf} {port.port}; rail {rail} of the others is on {expected}"
                )
        found[node.name] += _compare_settings("the node", node.lossless, inventory.lossless)
        for name in dict.fromkeys(port.leaf for port in node.rails):
            found[node.name] += _compare_settings(name, leaves[name].lossless, inventory.lossless)
    return {node: texts for node, texts in found.items() if texts}


def _find_usual_leaves(inventory: Inventory) -> dict[tuple[str, int], str]:
    """Find the leaf of each rail in each pod: the one that most nodes have there."""
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for node in inventory.nodes:
        for rail, port in enumerate(node.rails):
            counts[node.pod, rail][port.leaf] += 1
    # Of two with as many nodes the first by name, so that findings do not change by themselves.
    return {key: min(count, key=lambda leaf: (-count[leaf], leaf)) for key, count in counts.items()}


def _compare_settings(name: str, has: Lossless | None, wanted: Lossless | None) -> Iterator[str]:
    if wanted is None or has is None or has == wanted:
        return
    for words, one, other in (
        ("PFC priority", has.pfc_priority, wanted.pfc_priority),
        ("DSCP", has.dscp, wanted.dscp),
        ("ECN", _describe_switch(has.ecn), _describe_switch(wanted.ecn)),
    ):
        if one != other:
            yield f"{name} has {words} {one}; the plane has {other}"


def _describe_switch(is_on: bool) -> str:
    return "on" if is_on else "off"


def _check_range(what: str, numbers: range, possible: range) -> Iterator[str]:
    if numbers and (numbers[0] not in possible or numbers[-1] not in possible):
        yield (
            f"{what} {numbers[0]}-{numbers[-1]} are out of range: {possible[0]} to {possible[-1]}"
        )


def _check_leaves(inventory: Inventory) -> Iterator[str]:
    yield from _find_repeated("leaf", (leaf.name for leaf in inventory.leaves))
    yield from _find_repeated("router id", (str(leaf.router_id) for leaf in inventory.leaves))
    for at, leaf in enumerate(inventory.leaves):
        if leaf.prefix.prefixlen > 30:
            yield f"leaf {leaf.name}: {leaf.prefix} has no address for a server; 30 bits at most"
        for other in inventory.leaves[:at]:
            if leaf.prefix.overlaps(other.prefix):
                yield f"leaf {leaf.name}: {leaf.prefix} and {other.prefix} of {other.name} share addresses"


def _check_nodes(inventory: Inventory) -> Iterator[str]:
    leaves = {leaf.name for leaf in inventory.leaves}
    yield from _find_repeated("node", (node.name for node in inventory.nodes))
    for node in inventory.nodes:
        for rail, port in enumerate(node.rails):
            if port.leaf not in leaves:
                yield f"node {node.name}: rail {rail} is on the unknown leaf {port.leaf}"
    yield from _find_repeated("port", _list_ports(inventory.nodes))
    yield from _find_repeated("GUID", _list_guids(inventory.nodes))
    yield from _find_repeated("host NQN", (node.nqn for node in inventory.nodes if node.nqn))


def _list_ports(nodes: Iterable[PlaneNode]) -> Iterator[str]:
    for node in nodes:
        yield from (f"{rail.leaf} {rail.port}" for rail in node.rails)


def _list_guids(nodes: Iterable[PlaneNode]) -> Iterator[str]:
    for node in nodes:
        yield from (f"{guid:#018x}" for guid in node.guids)


def _check_storage(inventory: Inventory) -> Iterator[str]:
    yield from _find_repeated("storage target", (target.name for target in inventory.targets))
    for target in inventory.targets:
        names = (f"{target.name} {one.nqn}" for one in target.subsystems)
        yield from _find_repeated("subsystem", names)


def _find_repeated(what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{what} {name} is there {count} times"
