"""The quotas of one plan: a working copy that answers questions about claims and cards, with
trials.

    quotas = WorkingQuotas(snapshot, free)
    shape = quotas.admit_shape(tenant, shape, least)      # None: over a maximum
    closed = quotas.find_closed_cards(tenant)             # cards kept whole for others
    quotas.add_seats(tenant, rows, milli, sizes)          # `rollback(mark)` undoes it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import GPU, MEMORY, Resource, ResourceAmount
from gpupool.scheduling.filtering.capacity_columns import SeatAmounts
from gpupool.scheduling.filtering.feasibility import CardKind, list_card_kinds
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.cells import CellQuotas
from gpupool.scheduling.quota.fair_share import FairShares, list_overdrawn_lots
from gpupool.scheduling.quota.model_options import (
    frees_needed_models,
    list_uses_by_model,
    select_guaranteed_uses,
)
from gpupool.scheduling.quota.pool_size import PoolSize, measure_pool
from gpupool.scheduling.quota.queue_order import (
    find_smallest,
)
from gpupool.scheduling.quota.quota_rejections import (
    find_rejection_for_ever,
    reject_exhausted,
    reject_first,
    reject_unreachable,
)
from gpupool.scheduling.quota.quota_view import QuotaView
from gpupool.scheduling.quota.reclaim import (
    ReclaimLot,
    compute_job_use,
    compute_seats_use,
    list_borrowed_lots,
    list_lots,
    list_reclaimable_lots,
)
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_change import QuotaChange
from gpupool.scheduling.quota.tree_node import ExhaustedQuota, Use
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot


class QuotasMark(NamedTuple):
    """Where a trial began."""

    trees: tuple[int, ...]
    cells: int


class WorkingQuotas(QuotaView):
    """What every tenant may hold, holds and is guaranteed, as a plan changes it."""

    def __init__(
        self, snapshot: Snapshot, free: FreeCapacity, size: PoolSize | None = None
    ) -> None:
        """Take the quotas of the snapshot; `size` is that of its cards where it is known already."""
        super().__init__(
            QuotaTree(snapshot.tenants, snapshot.cohorts, size or measure_pool(snapshot.cards))
        )
        self.cards = snapshot.cards
        self._tenants = snapshot.tenants
        self._cohorts = snapshot.cohorts
        self._count_model_use(snapshot.running)
        if self.tree.firm is not None:
            self._count_firm_use(self.tree.firm, snapshot)
        self.cells = CellQuotas(self.tree, free, snapshot.running)

    def _count_model_use(self, running: Iterable[RunningJob]) -> None:
        # Tenants' totals are in the snapshot; what they hold of single models is in their running
        # jobs.
        for lot in list_lots(running, self.tree, self.cards) if self.tree.models else ():
            self.tree.add_use(
                lot.tenant, {r: amount for r, amount in lot.use.items() if r in self.tree.models}
            )

    def _count_firm_use(self, firm: QuotaTree, snapshot: Snapshot) -> None:
        # All that is held, but for what is known to be preemptible; of single models, as their
        # running jobs say.
        for name, view in snapshot.tenants.items():
            firm.add_use(name, {GPU: view.held.gpu_milli, MEMORY: view.held.memory_bytes})
        for job in snapshot.running:
            if job.tenant in firm.leaves and job.preemptible:
                firm.remove_use(job.tenant, {GPU: sum(job.milli), MEMORY: sum(job.sizes)})
            elif job.tenant in firm.leaves and firm.models:
                use = compute_job_use(job, firm, self.cards)
                firm.add_use(
                    job.tenant, {r: amount for r, amount in use.items() if r in firm.models}
                )

    # --- answers -------------------------------------------------------------------------

    def find_closed_cards(self, tenant: str) -> Bools | None:
        """Return the cards that are kept whole for others; None when there is none."""
        return self.cells.find_closed_cards(tenant)

    def list_reclaimable_lots(
        self, tenant: str, shape: Shape, least: ResourceAmount, running: Iterable[RunningJob]
    ) -> tuple[ReclaimLot, ...]:
        """Return what borrowers may be made to give back for a claim inside its guarantee, in
        order.
        """
        for way in select_guaranteed_uses(
            self.tree, tenant, list_uses_by_model(self.tree, shape, least)
        ):
            found = list_reclaimable_lots(self.tree, tenant, way, running, self.cards)
            if helping := tuple(
                lot for lot in found if frees_needed_models(self.tree, way, lot.use)
            ):
                return helping
        return ()

    def list_overdrawn_lots(
        self,
        tenant: str,
        shape: Shape,
        least: ResourceAmount,
        running: Iterable[RunningJob],
        due: FairShares,
        priority: int,
    ) -> tuple[ReclaimLot, ...]:
        """Return what others hold beyond their fair share that the claim may take, in order."""
        return list_overdrawn_lots(
            self.tree,
            tenant,
            self.tree.compute_claim_use(shape, least),
            running,
            self.cards,
            due,
            priority,
        )

    def list_borrowing_jobs(self, running: Iterable[RunningJob]) -> frozenset[str]:
        """Return the jobs among these that run on borrowed quota."""
        found = list_borrowed_lots(self.tree, running, self.cards)
        names = set[str]()
        for lot in chain.from_iterable(found.values()):
            names.update(job.job for job in lot.jobs)
        return frozenset(names)

    def find_rejection(self, tenant: str, shape: Shape, least: ResourceAmount) -> Rejection | None:
        """Return why the quotas reject the claim, now or for ever; None where they do not."""
        use = self.tree.compute_claim_use(shape, least)
        kept = reject_unreachable(self.find_unreachable_quota(tenant, use), firm=self.firm)
        return (
            find_rejection_for_ever(self.tree, tenant, use)
            or kept
            or self.find_current_rejection(tenant, shape, least)
        )

    def find_unreachable_quota(self, tenant: str, use: Use) -> ExhaustedQuota | None:
        """Return the node without room for so much even if no job held anything; None where there
        is room.
        """
        for side in self.list_tree_sides(self._empty_tree):
            found = side.find_exhausted(tenant, use)
            if found:
                return found
        return None

    @cached_property
    def _empty_tree(self) -> QuotaTree:
        views = {name: replace(view, held=ResourceAmount()) for name, view in self._tenants.items()}
        return QuotaTree(views, self._cohorts, self.tree.size)

    def find_current_rejection(
        self, tenant: str, shape: Shape, amount: ResourceAmount
    ) -> Rejection | None:
        """Return why a claim that takes so much has no room now."""
        return reject_first(
            side.find_exhausted(tenant, side.compute_claim_use(shape, amount))
            or self._find_exhausted_model(tenant, shape, side)
            for side in self.list_tree_sides(self.tree)
        )

    def find_rejection_of_use(self, tenant: str, use: Use) -> Rejection | None:
        """Return why so much more on known cards has no room now."""
        return reject_first(
            side.find_exhausted(tenant, use) for side in self.list_tree_sides(self.tree)
        )

    def get_room_when_empty(self, tenant: str, resource: Resource) -> int | None:
        """Return how much of it the tenant could hold if no job held anything; None is no limit."""
        sides = self.list_tree_sides(self._empty_tree)
        return find_smallest([side.get_room(tenant, resource) for side in sides])

    def describe_exhausted_model(self, tenant: str, shape: Shape) -> str:
        """Name the model of which the tenant may hold no more, though the claim could use it."""
        found = self._find_exhausted_model(tenant, shape, self.tree, some=True)
        return reject_exhausted(found).sentence if found else ""

    # --- changes -------------------------------------------------------------------------

    def compute_use(self, taken: SeatAmounts) -> Use:
        """Compute what these seats take of every counted resource."""
        seats = zip(taken.rows.tolist(), taken.milli.tolist(), taken.sizes.tolist(), strict=True)
        return compute_seats_use(seats, self.tree, self.cards)

    def add_seats(self, tenant: str, rows: Ints, milli: int, sizes: Ints | Sequence[int]) -> None:
        """Add seats of so many milli-devices on these cards to the tenant."""
        use = self._compute_seats_use(
            rows, milli, sum(sizes if isinstance(sizes, Sequence) else sizes.tolist())
        )
        for tree in (self.tree, *self.list_met_trees()):
            tree.add_use(tenant, use, firm=self.firm)
        self.cells.add_seats(tenant, rows)

    def remove_seats(self, tenant: str, rows: Ints, milli: int, size: int, *, firm: bool) -> None:
        """Remove seats of a placement from the present quotas, in a trial; `size` is their sum."""
        self.tree.remove_use(tenant, self._compute_seats_use(rows, milli, size), firm=firm)

    def _compute_seats_use(self, rows: Ints, milli: int, size: int) -> Use:
        if not self.has_model_limits:
            return {GPU: milli * len(rows), MEMORY: size}
        return self.tree.compute_seats_use(
            [self._kinds[at] for at in self.cards.model[rows].tolist()], milli, size
        )

    @cached_property
    def _kinds(self) -> tuple[CardKind, ...]:
        return list_card_kinds(self.cards)

    def trade_seats(self, tenant: str, rows: Ints, milli: int, sizes: Ints) -> list[QuotaChange]:
        """Add seats in the present quotas alone, as a change that is undone by itself."""
        use = self._compute_seats_use(rows, milli, int(np.sum(sizes)))
        return [QuotaChange.apply_to(self.tree, tenant, use, 1, firm=self.firm)]

    def trade_job(self, job: RunningJob) -> list[QuotaChange]:
        """Remove a job in the present quotas alone, as a change that is undone by itself."""
        # A job of a tenant that was deleted holds cards, but no quota.
        if job.tenant not in self.tree.leaves:
            return []
        use = compute_job_use(job, self.tree, self.cards)
        return [QuotaChange.apply_to(self.tree, job.tenant, use, -1, firm=not job.preemptible)]

    def release_job(self, job: RunningJob) -> None:
        """Remove what a job holds, as if it had ended."""
        if job.tenant in self.tree.leaves:
            use = compute_job_use(job, self.tree, self.cards)
            for tree in (
                self.tree,
                *(one.tree for one in self.promised_uses if job.job not in one.gone),
            ):
                tree.remove_use(job.tenant, use, firm=not job.preemptible)
            self.cells.remove_seats(job.tenant, np.array(job.rows, dtype=np.int64))

    def mark(self) -> QuotasMark:
        """Return where a trial begins."""
        return QuotasMark(tuple(tree.mark() for tree in self._list_trees()), self.cells.mark())

    def restart(self) -> None:
        """Undo everything: as it was in the snapshot."""
        self.promised_uses.clear()
        self.rollback(QuotasMark((0,), 0))

    def rollback(self, mark: QuotasMark) -> None:
        """Undo every change since the mark."""
        # Not strict: trees of starts that were promised after the mark have no entry in it. They
        # are dropped with their promise, and no trial outlives one.
        for tree, at in zip(self._list_trees(), mark.trees, strict=False):
            tree.rollback(at)
        self.cells.rollback(mark.cells)

    def _list_trees(self) -> list[QuotaTree]:
        return [self.tree, *(one.tree for one in self.promised_uses)]
