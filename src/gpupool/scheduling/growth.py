"""How much more a running job may hold of the cards it has, by the quotas: a placement's questions about an amount.

It finds room in every node up to the pool, in what is not guaranteed to others where it may not be preempted, and in
what promised starts keep until it ends. Whole cells are not asked: one on which its tenant sits is never closed to it,
and nothing is bound or freed where nobody moves.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.base.units import format_instant
from gpupool.model.claim import Reason, Rejection
from gpupool.model.quota import MEMORY
from gpupool.scheduling import wording
from gpupool.scheduling.fairness import Budget, smallest
from gpupool.scheduling.free import Free
from gpupool.scheduling.quotas import HINT, Quotas
from gpupool.scheduling.quotas_ahead import QuotasAhead
from gpupool.scheduling.reclaim import used_by
from gpupool.scheduling.snapshot import Running, Snapshot
from gpupool.scheduling.spare import Spare


class Growth:
    """Of one job, as the snapshot has the pool. `spare` knows until when the job stays, and what is promised."""

    def __init__(self, snapshot: Snapshot, job: Running, spare: Spare, now_ns: int) -> None:
        self._job, self._until_ns = job, spare.stays(job)
        self._quotas = Quotas(snapshot, Free(snapshot.cards))
        ahead = QuotasAhead(self._quotas, snapshot.running, now_ns)
        for key, hold in sorted(spare.promises, key=lambda one: one[1].start_ns):
            ahead.keep(key.tenant, hold.taken, hold.start_ns, hold.end_ns, firm=not key.preemptible)
        self._quotas.firm = not job.preemptible
        self._quotas.window = self._window = now_ns, self._until_ns

    def refused(self, more: Iterable[tuple[int, int, int]]) -> Rejection | None:
        """Why it may not have so much more: the row of each card, milli-devices and bytes (below 0: so much less)."""
        quotas, tenant = self._quotas, self._job.tenant
        use = used_by(more, quotas.tree, quotas.cards)
        if said := quotas.no_room(tenant, use):
            return said if said.hint else Rejection(said.sentence, said.dominant, hint=HINT)
        later = quotas.promised_use(tenant, use, self._window)
        if later is None:
            return None
        since = f" from {format_instant(later.start_ns)} on"
        return Rejection(wording.quota_kept(tenant) + since, Reason.QUOTA, hint="try again when that one has started")

    def most(self) -> Budget:
        """How much more of each of its cards at once; None is no limit."""
        quotas = self._quotas
        seats = used_by(((row, 1, 1) for row in self._job.rows), quotas.tree, quotas.cards)
        left = {r: quotas.left(self._job.tenant, r) for r, count in seats.items() if count}
        each = {r: None if rest is None else rest // seats[r] for r, rest in left.items()}
        return Budget(smallest(rest for r, rest in each.items() if r != MEMORY), each[MEMORY])
