"""Headroom of a running job on its own cards, by the quotas.

A larger job needs room in every node up to the pool, in what is not guaranteed to others where it
may not be preempted, and beside what promised starts keep until it ends. Whole cells are not asked:
a cell on which the tenant sits is never closed to it, and no seat moves.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.base.units import format_instant
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.model.quota import MEMORY
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.queue_order import QuotaHeadroom, find_smallest
from gpupool.scheduling.quota.quota_rejections import (
    HINT,
)
from gpupool.scheduling.quota.reclaim import compute_seats_use
from gpupool.scheduling.quota.working_quotas import (
    WorkingQuotas,
)
from gpupool.scheduling.reasons import messages
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.quotas_over_time import QuotasOverTime
from gpupool.scheduling.timeline.unreserved_capacity import UnreservedCapacity


class ResizeHeadroom:
    """Headroom of one job in the snapshot. `spare` knows when the job ends and what is promised."""

    def __init__(
        self, snapshot: Snapshot, job: RunningJob, spare: UnreservedCapacity, now_ns: int
    ) -> None:
        self._job = job
        self._until_ns = spare.compute_end_in_place(job)
        self._quotas = WorkingQuotas(snapshot, FreeCapacity(snapshot.cards))
        ahead = QuotasOverTime(self._quotas, snapshot.running, now_ns)
        for key, hold in sorted(spare.promises, key=lambda one: one[1].start_ns):
            ahead.keep_start(
                key.tenant, hold.taken, hold.start_ns, hold.end_ns, firm=not key.preemptible
            )
        self._quotas.firm = not job.preemptible
        self._quotas.window = self._window = now_ns, self._until_ns

    def find_rejection(self, more: Iterable[tuple[int, int, int]]) -> Rejection | None:
        """Return why the job may not have so much more.

        Args:
            more: the row of each card, milli-devices and bytes; below 0 is so much less.
        """
        quotas = self._quotas
        tenant = self._job.tenant
        use = compute_seats_use(more, quotas.tree, quotas.cards)
        if said := quotas.find_rejection_of_use(tenant, use):
            return said if said.hint else Rejection(said.sentence, said.dominant, hint=HINT)
        later = quotas.find_promise_in_way_of_use(tenant, use, self._window)
        if later is None:
            return None
        since = f" from {format_instant(later.start_ns)} on"
        return Rejection(
            messages.describe_quota_kept(tenant) + since,
            RejectionReason.QUOTA,
            hint="try again when that one has started",
        )

    def get_most(self) -> QuotaHeadroom:
        """Return how much more of each of its cards the job may have at once; None is no limit."""
        quotas = self._quotas
        seats = compute_seats_use(
            ((row, 1, 1) for row in self._job.rows), quotas.tree, quotas.cards
        )
        milli: int | None = None
        size: int | None = None
        for resource, count in seats.items():
            if not count:
                continue
            room = quotas.get_room(self._job.tenant, resource)
            # All cards of a job grow alike, so each may have one part of what is left.
            each = None if room is None else room // count
            if resource == MEMORY:
                size = each
            else:
                # Compute on any card and of single models: the tightest limit counts.
                milli = find_smallest((milli, each))
        return QuotaHeadroom(milli, size)
