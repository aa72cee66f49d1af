"""Use of quota that a promised start keeps."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import Use


@dataclass(frozen=True, eq=False)
class PromisedUse:
    """Use that a promised start keeps; `tree` is the quota tree as of that start, with this use in
    it.
    """

    tree: QuotaTree
    tenant: str
    use: Use
    #: Whether it may not be preempted then.
    firm: bool
    start_ns: int
    end_ns: int
    #: Running jobs that have ended by then.
    gone: Container[str]
    #: It waits for jobs of unknown end: what they return is kept for it from now on.
    collects: bool = False
    #: The job or gang of a start that the last plan promised.
    claim: str = ""

    def is_met_by(self, since_ns: int, until_ns: int) -> bool:
        """Whether a claim that runs during the window must find room beside it at its start."""
        # A promise that has begun by `since_ns` is in the tree of that instant already; one that
        # begins at the end of the window follows the claim.
        return self.collects or since_ns < self.start_ns < until_ns

    def is_running_at(self, instant_ns: int) -> bool:
        """Whether it runs at that instant."""
        return not self.collects and self.start_ns <= instant_ns < self.end_ns
