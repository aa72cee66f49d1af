"""Decides which allocations NVIDIA's driver could limit by cgroup, whatever the host is. Pure."""

from __future__ import annotations

from typing import Final

from gpupool.mechanisms.contract import AllocationView, HostKind
from gpupool.model.device import CardMode, Device

#: The first driver release with memory limits by cgroup (docs.nvidia.com/deploy/mps, CUDA 13.4).
FIRST_RELEASE: Final = 615


def explain_unlimited(view: AllocationView) -> str:
    """Return why this allocation needs no limit or can have none, whatever the host is."""
    if not view.fence:
        return "the job asked for no fence"
    if view.host is HostKind.VM:
        return "a VM has the card, and its own driver"
    for grant in view.granted:
        device = grant.device
        if device.vendor != "nvidia":
            return f"cards of {device.vendor} have no limits by cgroup"
        if grant.profile or device.partitioned or device.mode is CardMode.MIG:
            return "the card is in MIG mode, in which its driver has no limits by cgroup"
        if _is_older(device):
            driver = device.driver_version or "of unknown release"
            return f"driver {driver} has no limits by cgroup; R{FIRST_RELEASE} has"
    if all(grant.memory_bytes >= grant.device.memory_bytes for grant in view.granted):
        return "the job has all memory of its cards"
    return ""


def _is_older(device: Device) -> bool:
    """Whether the driver is of a release without limits; a simulated card must name a later one."""
    release = (device.driver_version or "").partition(".")[0]
    if not release.isdecimal():
        return device.simulated
    return int(release) < FIRST_RELEASE
