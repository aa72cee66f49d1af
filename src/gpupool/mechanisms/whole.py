"""Serves whole cards: the job has them alone, and the node's other cards are hidden from it.

A card with one user needs no limits. The level `fence: none` is about the other cards: environment
variables hide them, and only the supervisor's device cgroup, where there is one, closes them.
"""

from __future__ import annotations

from gpupool.base.units import WHOLE
from gpupool.mechanisms.bookkeeping import BookkeepingMechanism
from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.partition import find_partition_problem
from gpupool.model.claim import SharingKind


class WholeCards(BookkeepingMechanism):
    """Cards with all their compute and all their memory, for one job."""

    name = "whole"

    def explain_refusal(self, view: AllocationView) -> str:
        if problem := find_partition_problem(view):
            return problem
        if view.sharing == SharingKind.BEST_EFFORT:
            return "a best-effort share never has a card for itself"
        for grant in view.granted:
            if not is_whole(grant):
                return f"{grant.device.uuid} is granted in part"
        return "" if view.granted else "it has no card"

    def explain_level(self, view: AllocationView) -> str:
        return "whole cards: there is nothing to limit"


def is_whole(grant: GrantedDevice) -> bool:
    """Whether all of a card's compute and memory is granted; memory in whole MiB, as in claims."""
    # A card's memory is seldom a whole number of MiB, and a claim cannot name the rest.
    return grant.gpu_milli == WHOLE and grant.memory_bytes >> 20 == grant.device.memory_bytes >> 20
