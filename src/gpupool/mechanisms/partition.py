"""Checks which partitions the fence can serve: those of simulated cards.

Cards in partition mode are handed out in partitions only. On a real card a partition is a GPU
instance, which `mechanisms.mig` creates; every other mechanism refuses it rather than run it without
limits.
"""

from __future__ import annotations

from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.model.device import Device
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.partition import PartitionProfile


def list_stand_in_profiles(device: Device) -> tuple[PartitionProfile, ...]:
    """Return the profiles that the fence can stand in for: of simulated cards in partition mode."""
    return device.profiles if device.simulated and device.partitioned else ()


def find_mode_problem(view: AllocationView) -> str:
    """Return why a grant does not fit the mode of its card; empty if every grant fits."""
    for grant in view.granted:
        if view.host is HostKind.VM and not grant.device.simulated:
            return f"{grant.device.uuid} is not in a mode in which a VM gets the card itself"
        problem = _find_grant_problem(grant)
        if problem:
            return problem
    return ""


def _find_grant_problem(grant: GrantedDevice) -> str:
    device = grant.device
    if grant.profile is None:
        return (
            f"{device.uuid} is in partition mode and takes partitions alone"
            if device.partitioned
            else ""
        )
    if not device.simulated:
        return f"{grant.profile} of {device.uuid} is a hardware partition"
    known = any(profile.name == grant.profile for profile in list_stand_in_profiles(device))
    return "" if known else f"{device.uuid} cannot be cut into {grant.profile} now"


def find_partition_problem(view: AllocationView) -> str:
    """Return the same for a mechanism that serves no partitions at all."""
    problem = find_mode_problem(view)
    for grant in view.granted:
        if not problem and grant.profile is not None:
            return f"a partition ({grant.profile}) needs a fence that holds it"
    return problem
