"""Says why an allocation cannot be suspended, with numbers and in words for people. Pure."""

from __future__ import annotations

from typing import Final

from gpupool.base.units import format_mib
from gpupool.mechanisms.contract import AllocationView, HostKind
from gpupool.model.device import CardMode

#: Driver branch that brought the checkpoint calls (CUDA 12.8).
FIRST_DRIVER: Final = 570
#: Mechanisms whose processes the driver can suspend. It refuses MIG and MPS (CRIU's plugin lists
#: both), and a VM's card is not this host's driver's.
_SUPPORTED: Final = frozenset({"whole", "fence", "share"})


def explain_refusal(mechanism: str, view: AllocationView) -> str:
    """Return why the allocation cannot be suspended; empty where it can. Changes nothing."""
    if view.host is HostKind.VM:
        return "it is a virtual machine, whose card belongs to the guest's driver"
    if view.host is HostKind.CONTAINER or view.seat.container:
        return "it is a container, whose processes the pool does not suspend yet"
    if mechanism not in _SUPPORTED:
        return f"it has its card by {mechanism}, and the driver suspends no process there"
    for granted in view.granted:
        device = granted.device
        if device.vendor != "nvidia":
            return f"{device.product} has no driver that can suspend a process"
        if device.mode is not CardMode.PLAIN:
            return (
                f"card {device.uuid} is in mode {device.mode}: the driver suspends no process there"
            )
        branch = _read_branch(device.driver_version)
        if branch is not None and branch < FIRST_DRIVER:
            return (
                f"the driver is {device.driver_version}, and suspending needs R{FIRST_DRIVER} "
                "or later"
            )
    return ""


def explain_host_shortage(needed_bytes: int, room_bytes: int) -> str:
    """Return why the host cannot take the memory of a job; empty where it can."""
    if needed_bytes <= room_bytes:
        return ""
    return (
        f"its {format_mib(needed_bytes)} of card memory need as much main memory, and the job may "
        f"take {format_mib(room_bytes)} more"
    )


def _read_branch(version: str | None) -> int | None:
    """Return the driver's branch, 570 of "570.86.15"; None where it is not known."""
    head = (version or "").partition(".")[0]
    return int(head) if head.isdigit() else None
