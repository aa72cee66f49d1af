"""Serves shares of any size by bookkeeping: the pool counts them, and stops no program.

It serves the shares that no fence can: cards of other vendors, jobs that asked for no fence, a
missing native part. Each of them reports `fence: none`.
"""

from __future__ import annotations

from gpupool.mechanisms.bookkeeping import BookkeepingMechanism, find_size_problem
from gpupool.mechanisms.contract import AllocationView
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.offers.summaries import MechanismSummary
from gpupool.mechanisms.partition import find_partition_problem
from gpupool.model.enforcement import EnforcementLevels
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import SizeClass


class CountedShare(BookkeepingMechanism):
    """Shares of any size; several on one card."""

    name = "share"
    summary = MechanismSummary(
        EnforcementLevels(),
        (HostKind.PROCESS, HostKind.CONTAINER),
        SizeClass.ANY,
        "all",
        "contract suite on simulated cards",
    )

    def explain_refusal(self, view: AllocationView) -> str:
        return find_partition_problem(view) or find_size_problem(view)

    def explain_level(self, view: AllocationView) -> str:
        return (
            f"counted only: {FenceMechanism().explain_refusal(view) or 'it was placed without one'}"
        )
