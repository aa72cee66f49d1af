"""Decides which functions must go to a VM together, and names the device that forbids it.

The IOMMU isolates groups, not functions: a disk in the card's group would be within the VM's reach.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.mechanisms.pci.drivers import is_handover_driver
from gpupool.mechanisms.pci.sysfs import PciDescription, PciTree
from gpupool.probes.common.sysfs import read_text


@dataclass(frozen=True)
class HandoverSet:
    """Functions that go along with a card, or why none may.

    Attributes:
        functions: the card itself first, then its audio, USB and other functions.
        problem: why they cannot be handed over, for people; empty when they can.
    """

    functions: tuple[PciDescription, ...] = ()
    problem: str = ""


def find_handover_set(tree: PciTree, address: str) -> HandoverSet:
    """Return the functions that a VM gets with the card at `address`."""
    if not tree.has_function(address):
        return HandoverSet(problem=f"{address} is not on the PCI bus")
    card = tree.describe(address)
    if card.group is None:
        return HandoverSet(problem=explain_missing_iommu(tree))
    # A virtual function shares its slot with the functions of others and goes alone.
    slot = (address,) if card.physical else tree.list_slot(address)
    functions = [card]
    for name in slot:
        if name != address:
            functions.append(tree.describe(name))
    for function in functions:
        uses = tree.name_uses(function.address)
        if uses and not is_handover_driver(function.driver):
            return HandoverSet(problem=f"the host uses {function.address}: {uses}")
    for group in dict.fromkeys(function.group for function in functions):
        problem = "" if group is None else _find_foreign_member(tree, group, slot)
        if problem:
            return HandoverSet(problem=problem)
    return HandoverSet(tuple(functions))


def explain_missing_iommu(tree: PciTree) -> str:
    """Return what the administrator must do to get IOMMU groups."""
    processors = read_text(tree.root / "proc/cpuinfo") or ""
    if tree.has_groups():
        return "its slot has no IOMMU group although other slots have: the firmware leaves it out"
    if "GenuineIntel" in processors:
        todo = "boot the kernel with intel_iommu=on and switch VT-d on in the firmware"
    elif "AuthenticAMD" in processors:
        todo = "switch the IOMMU (AMD-Vi) on in the firmware; amd_iommu=off must not be set"
    else:
        todo = "switch the IOMMU (SMMU) on in the firmware"
    return f"the kernel uses no IOMMU: {todo}"


def _find_foreign_member(tree: PciTree, group: int, own: tuple[str, ...]) -> str:
    for name in tree.list_group(group):
        if name in own:
            continue
        member = tree.describe(name)
        if member.is_bridge or member.driver is None or is_handover_driver(member.driver):
            continue
        uses = tree.name_uses(name)
        uses = f" ({uses})" if uses else ""
        return (
            f"IOMMU group {group} also has {name}, a {member.kind} on driver {member.driver}{uses}: "
            "move the card to another slot, or the other device"
        )
    return ""
