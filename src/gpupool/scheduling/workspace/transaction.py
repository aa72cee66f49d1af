"""The transaction of one cycle: seats on the planning state and use of quotas, all of it undoable.

Placing, gangs, holds and preemption are made of these steps; the cycle decides their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.feasibility import FITS
from gpupool.scheduling.quota.tree_change import QuotaChange
from gpupool.scheduling.snapshot.claims import MigrationHold, RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState, SeatExtras
from gpupool.scheduling.workspace.seat_steps import SeatSteps
from gpupool.scheduling.workspace.tentative_placement import TentativePlacement


class PlanningTransaction(SeatSteps):
    """The snapshot as it changes while a plan is made: seats taken, and seats held for later."""

    def __init__(self, snapshot: Snapshot, board: PlanningState) -> None:
        super().__init__(snapshot, board)
        self._held: list[TentativePlacement] = []
        #: Changes of quotas for seats that no job has left or taken yet.
        self._traded: list[QuotaChange] = []
        self._traded_jobs: set[str] = set()
        self._held_for_jobs: dict[str, TentativePlacement] = {}

    def hold_seats(self, seated: Iterable[TentativePlacement]) -> None:
        """Hide these seats from later claims of this cycle, also where jobs have not left them yet."""
        for one in seated:
            self.board.hold_seats(one.shape, one.node, one.rows, one.sizes, one.took)
            self._held.append(one)

    def trade_seats(
        self, tenant: str, seated: Iterable[TentativePlacement], leaving: Iterable[RunningJob]
    ) -> None:
        """Hold seats for the tenant and count them as its own, and not as those of the leaving
        jobs.
        """
        seats = list(seated)
        self.hold_seats(seats)
        for one in seats:
            self._traded += self.quotas.trade_seats(
                tenant, one.rows, one.shape.held_milli, one.sizes
            )
        for job in leaving:
            if job.job not in self._traded_jobs:
                self._traded_jobs.add(job.job)
                self._traded += self.quotas.trade_job(job)

    def is_traded(self, job: str) -> bool:
        """Whether the seats of the evicted job count as its beneficiary's in the quotas."""
        return job in self._traded_jobs

    def hold_for_job(self, kept: MigrationHold) -> None:
        """Hold seats that only this job gets."""
        rows = np.array(kept.rows, dtype=np.int64)
        node = int(self.snapshot.cards.node[rows[0]])
        sizes = np.array(kept.sizes, dtype=np.int64)
        numa = self.board.divide_over_numa(kept.shape, node, rows)
        self._held_for_jobs[kept.job] = TentativePlacement(
            kept.shape, node, rows, sizes, 1, SeatExtras((), numa)
        )
        self.hold_seats([self._held_for_jobs[kept.job]])

    def seat_held_job(self, tenant: str, job: str) -> TentativePlacement | None:
        """Place the job on the seats held for it; None where none are, or it may not have them any
        more.
        """
        seated = self._held_for_jobs.pop(job, None)
        if seated is None:
            return None
        self._held.remove(seated)
        self.board.unhold_seats(seated.shape, seated.node, seated.rows, seated.sizes, seated.took)
        fit = self.get_fit(seated.shape)
        # The pool may have changed since the move was planned: a card failed, a quota was lowered.
        if (fit.why[seated.rows] != FITS).any() or not self.has_quota(
            tenant, seated.shape, self.compute_least(seated.shape)
        ):
            return None
        if len(numa_affinity.order_by_numa_affinity(self.free, fit, seated.rows)) < len(
            seated.rows
        ):
            return None
        took = self.board.take_seats(fit, seated.node, seated.rows)
        self.quotas.add_seats(tenant, seated.rows, seated.shape.held_milli, seated.sizes)
        return replace(seated, took=took)

    def unhold_all(self) -> None:
        """Show all held seats again."""
        for one in self._held:
            self.board.unhold_seats(one.shape, one.node, one.rows, one.sizes, one.took)
        self._held.clear()
        # Not by a mark: placements of the plan came in between, and stay.
        for change in reversed(self._traded):
            change.undo(self.quotas.tree)
        self._traded.clear()
        self._traded_jobs.clear()
        self._held_for_jobs.clear()
