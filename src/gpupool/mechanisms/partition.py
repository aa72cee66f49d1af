"""Partitions of simulated cards: the fence holds a job to its piece, as hardware would on a real card.

Cards in partition mode are handed out in pieces alone. On a real card a piece is a GPU instance, which nothing here can
make yet; so its profiles are not published and whoever is granted one all the same is refused, never run unheld.
"""

from __future__ import annotations

from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.model.device import Device
from gpupool.model.partition import PartitionProfile


def profiles_of(device: Device) -> tuple[PartitionProfile, ...]:
    """What the fence can stand in for: the profiles of a simulated card in partition mode."""
    return device.profiles if device.simulated and device.partitioned else ()


def mode_problem(view: AllocationView) -> str:
    """Why what is granted does not go with the mode of its cards; empty where it does."""
    return next((problem for problem in map(_problem, view.granted) if problem), "")


def _problem(grant: GrantedDevice) -> str:
    device = grant.device
    if grant.profile is None:
        return f"{device.uuid} is in partition mode and takes partitions alone" if device.partitioned else ""
    if not device.simulated:
        return f"partitions of real cards cannot be made yet ({grant.profile} of {device.uuid})"
    known = any(profile.name == grant.profile for profile in profiles_of(device))
    return "" if known else f"{device.uuid} cannot be cut into {grant.profile} now"


def partition_problem(view: AllocationView) -> str:
    """The same for a mechanism that serves no partitions at all."""
    cut = next((grant.profile for grant in view.granted if grant.profile is not None), None)
    return mode_problem(view) or (f"a partition ({cut}) needs a fence that holds it" if cut else "")
