"""Checks what an allocation for a virtual machine asks for, before any look at the hardware."""

from __future__ import annotations

import os

from gpupool.mechanisms.contract import AllocationView, HostKind
from gpupool.mechanisms.pci.fabric import shorten_address
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.model.device import CardMode, Device

#: Label of a card: modes, separated by commas, into which a claim alone may switch it.
SWITCHABLE = "switchable"


def find_request_problem(view: AllocationView) -> str:
    """Return why no hardware can be handed over for an allocation; empty when some can."""
    if view.host is not HostKind.VM:
        return f"it hands hardware to virtual machines only, and this allocation is a {view.host}"
    for grant in view.granted:
        device = grant.device
        if device.simulated:
            return f"{device.uuid} is simulated: a virtual machine needs real hardware"
        if device.pci_address is None:
            return f"{device.uuid} has no PCI address"
    return "" if view.granted else "it has no card"


def find_access_problem(tree: PciTree) -> str:
    """Return why this process cannot change drivers at all; empty when it can."""
    probe = tree.root / "sys/bus/pci/drivers_probe"
    if not probe.exists():
        return "this node has no PCI bus"
    if not os.access(probe, os.W_OK):
        return "the agent may not change drivers: the pool must be one of root"
    return ""


def find_mode_problem(device: Device, mode: CardMode, *, by_claim: bool) -> str:
    """Return why a card is not set up for a mode; empty when it is, or when a claim may do that.

    Args:
        by_claim: whether the mechanism can switch a card whose label allows that.
    """
    if device.mode is mode:
        return ""
    if device.mode is not CardMode.PLAIN:
        return f"{device.uuid} is in mode {device.mode}, not {mode}"
    if by_claim and mode in device.labels.get(SWITCHABLE, "").split(","):
        return ""
    label = f", or label it {SWITCHABLE}={mode}" if by_claim else ""
    command = f"`gpupool mode {device.uuid} {mode}`"
    return f"{device.uuid} is in mode plain: switch it with {command}{label}"


def read_address(device: Device) -> str:
    """Return a card's address as sysfs writes it."""
    return shorten_address(device.pci_address or "")
