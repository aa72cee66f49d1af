"""Checks whether a card can go to a virtual machine, and names what is in the way."""

from __future__ import annotations

from gpupool.mechanisms.pci.binding import explain_use
from gpupool.mechanisms.pci.binding_plan import list_card_nodes
from gpupool.mechanisms.pci.groups import HandoverSet, find_handover_set
from gpupool.mechanisms.pci.requests import read_address
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.model.device import Device


def check_card(tree: PciTree, device: Device) -> HandoverSet:
    """Return the functions that go along with a card, or why it cannot go."""
    address = read_address(device)
    found = find_handover_set(tree, address)
    if found.problem:
        return HandoverSet(problem=f"{device.uuid}: {found.problem}")
    problem = _find_state_problem(tree, device, found)
    return HandoverSet(problem=f"{device.uuid}: {problem}") if problem else found


def _find_state_problem(tree: PciTree, device: Device, found: HandoverSet) -> str:
    card = found.functions[0]
    if card.functions:
        return f"it has {card.functions} virtual functions, which must be removed first"
    # What the last VM left in its memory would reach the next one.
    if not card.reset_methods:
        return "the kernel knows no way to reset it, so it cannot go from one VM to another"
    nodes = list(list_card_nodes(tree, card.address, device.device_paths))
    for function in found.functions:
        nodes += tree.list_group_nodes(function.address)
    use = explain_use(tree.root, nodes)
    return f"it is in use by {use}" if use else ""
