"""Any piece of a card by bookkeeping: the pool counts what it gave, and nothing stops a program from taking
more.

It carries the shares that no fence can (other vendors' cards, jobs that asked for none, a missing native part), and
says so: `fence: none`.
"""

from __future__ import annotations

from gpupool.mechanisms.bookkeeping import Bookkeeping, size_problem
from gpupool.mechanisms.contract import AllocationView
from gpupool.mechanisms.fence import Fence
from gpupool.mechanisms.partition import partition_problem


class Share(Bookkeeping):
    """Shares of any size; several on one card."""

    name = "share"

    def refuses(self, view: AllocationView) -> str:
        return partition_problem(view) or size_problem(view)

    def why(self, view: AllocationView) -> str:
        return f"counted only: {Fence().refuses(view) or 'it was placed without one'}"
