"""Makes the inventory of what an admin has loaded, and refuses what is impossible."""

from __future__ import annotations

from ipaddress import IPv4Address

from gpupool.base.errors import BadAddress, BadPlaneInventory
from gpupool.network.addresses import parse_prefix
from gpupool.network.planes.inventory_checks import list_faults
from gpupool.network.planes.model import (
    Inventory,
    Leaf,
    Lossless,
    PlaneNode,
    RailPort,
    StorageTarget,
    Subsystem,
)
from gpupool.wire.network.planes import (
    LeafIn,
    LosslessSettings,
    PlaneInventory,
    PlaneNodeIn,
    StorageTargetIn,
)

#: Faults that a refusal names.
_NAMED = 5


def parse_inventory(content: PlaneInventory) -> Inventory:
    """Make an inventory.

    Raises:
        BadAddress: of an address or a prefix.
        BadPlaneInventory: something is there twice, unknown or out of range; `details` has all of it.
    """
    inventory = Inventory(
        leaves=tuple(map(_parse_leaf, content.leaves)),
        nodes=tuple(map(_parse_node, content.nodes)),
        targets=tuple(map(_parse_target, content.storage_targets)),
        vlans=_parse_numbers(content.vlans),
        vnis=_parse_numbers(content.vnis),
        pkeys=_parse_numbers(content.pkeys),
        route_target_asn=content.route_target_asn,
        management=tuple(map(parse_prefix, content.management)),
        lossless=_parse_lossless(content.lossless),
    )
    faults = list_faults(inventory)
    if faults:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise BadPlaneInventory(
            f"the inventory of planes cannot be: {'; '.join(faults[:_NAMED])}{more}",
            hint="correct the file; nothing was changed",
            faults=faults,
        )
    return inventory


def _parse_leaf(leaf: LeafIn) -> Leaf:
    return Leaf(
        leaf.name,
        leaf.asn,
        _parse_address(leaf.router_id),
        parse_prefix(leaf.prefix),
        leaf.bridge,
        _parse_lossless(leaf.lossless),
    )


def _parse_node(node: PlaneNodeIn) -> PlaneNode:
    return PlaneNode(
        node.name,
        tuple(RailPort(rail.leaf, rail.port) for rail in node.rails),
        tuple(int(guid, 16) for guid in node.guids),
        node.nqn or "",
        node.pod,
        _parse_lossless(node.lossless),
    )


def _parse_target(target: StorageTargetIn) -> StorageTarget:
    subsystems = tuple(Subsystem(one.nqn, one.tenant) for one in target.subsystems)
    return StorageTarget(target.name, target.kind, subsystems)


def _parse_lossless(settings: LosslessSettings | None) -> Lossless | None:
    if settings is None:
        return None
    return Lossless(settings.pfc_priority, settings.dscp, settings.ecn)


def _parse_numbers(text: str | None) -> range:
    if text is None:
        return range(0)
    first, _, last = text.partition("-")
    numbers = range(int(first, 0), int(last, 0) + 1)
    if not numbers:
        raise BadPlaneInventory(
            f"{text} has no number: {last} is below {first}", hint="write it like 100-199"
        )
    return numbers


def _parse_address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise BadAddress(f"not an IPv4 address: {text!r}") from error
