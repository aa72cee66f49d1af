"""Plans how a card leaves the host for VMs and returns: daemons, idleness, drivers, fabric."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.pci.binding_plan import (
    IDLE_SECONDS,
    BindingPlan,
    list_card_nodes,
    plan_binding,
)
from gpupool.mechanisms.pci.groups import HandoverSet
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.requests import read_address
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.model.device import Device

#: PCI's number of NVIDIA.
_NVIDIA = 0x10DE


def plan_card(tree: PciTree, device: Device, found: HandoverSet, folder: Path) -> BindingPlan:
    """Plan for one card that `check_card` found free.

    Args:
        folder: where the operations may keep what they find.
    """
    address = read_address(device)
    binding = plan_binding(tree, found.functions)
    enter: list[Operation] = []
    leave: list[Operation] = []
    if found.functions[0].vendor == _NVIDIA:
        record = str(folder / f"persistence-{address}.json")
        daemon = {"address": address, "record": record}
        enter.append({"verb": "disable-persistence", **daemon})
        leave.append({"verb": "restore-persistence", **daemon})
    nodes = [str(node) for node in list_card_nodes(tree, address, device.device_paths)]
    enter.append({"verb": "wait-until-idle", "nodes": nodes, "seconds": IDLE_SECONDS})
    return BindingPlan((*enter, *binding.enter), (*binding.leave, *leave), binding.functions)
