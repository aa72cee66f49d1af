"""Whole cards: the job has them alone, and the node's other cards are hidden from it.

Nothing has to be limited on a card that has one user. That it is `fence: none` speaks of the other cards:
variables hide them, and only the supervisor's device cgroup, where there is one, keeps a program from
opening them.
"""

from __future__ import annotations

from gpupool.base.units import WHOLE
from gpupool.mechanisms.bookkeeping import Bookkeeping
from gpupool.mechanisms.contract import AllocationView, GrantedDevice
from gpupool.mechanisms.partition import partition_problem
from gpupool.model.claim import Sharing


class Whole(Bookkeeping):
    """Cards with all their compute and all their memory, for one job."""

    name = "whole"

    def refuses(self, view: AllocationView) -> str:
        if problem := partition_problem(view):
            return problem
        if view.sharing == Sharing.BEST_EFFORT:
            return "a best-effort share never has a card for itself"
        parts = [grant.device.uuid for grant in view.granted if not is_whole(grant)]
        return f"{parts[0]} is granted in part" if parts else "" if view.granted else "it has no card"

    def why(self, view: AllocationView) -> str:
        return "whole cards: there is nothing to limit"


def is_whole(grant: GrantedDevice) -> bool:
    """All of a card's compute and, counted in whole MiB as claims are, all of its memory."""
    return grant.gpu_milli == WHOLE and grant.memory_bytes >> 20 == grant.device.memory_bytes >> 20
