"""Steps of one cycle that take and release seats, on cards and in quotas; all of them can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.model.topology import LinkKind
from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.domains import find_depth, list_levels
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.fit_counts import find_roomy_nodes
from gpupool.scheduling.quota.working_quotas import QuotasMark as QuotaMark
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.card_selection import (
    count_fits_on_card,
    exclude_closed,
    select_affordable,
)
from gpupool.scheduling.workspace.planning_state import NOTHING, PlanningState
from gpupool.scheduling.workspace.planning_state import StateMark as BoardMark
from gpupool.scheduling.workspace.tentative_placement import TentativePlacement


class TransactionMark(NamedTuple):
    """Where a trial began."""

    board: BoardMark
    quotas: QuotaMark


class SeatSteps:
    """The snapshot as it changes while a plan is made."""

    def __init__(self, snapshot: Snapshot, board: PlanningState) -> None:
        self.snapshot = snapshot
        self.board = board
        self.free = board.free
        self.running_jobs = board.running_jobs
        self.quotas = WorkingQuotas(snapshot, board.free, board.size)
        self.levels = list_levels(snapshot.cards)
        self._least_by_shape: dict[Shape, ResourceAmount] = {}
        #: Jobs and gangs without seats; the cycle updates it.
        self.pending_claims: set[str] = set()

    # --- questions --------------------------------------------------------------------------

    def get_fit(self, shape: Shape) -> ClaimFit:
        """Return the shape judged against what is free now."""
        return self.board.get_ranking(shape).fit

    def count_fits(self, shape: Shape) -> Ints:
        """Return per node how many such claims fit now."""
        return self.board.count_fits(shape)

    def compute_least(self, shape: Shape) -> ResourceAmount:
        """Compute the least that the claim will hold, over all its seats."""
        if shape not in self._least_by_shape:
            least = None if shape.memory_bytes is None else shape.memory_bytes * shape.count
            size = self.get_fit(shape).least_bytes if least is None else least
            self._least_by_shape[shape] = ResourceAmount(shape.held_milli * shape.count, size)
        return self._least_by_shape[shape]

    def has_quota(self, tenant: str, shape: Shape, amount: ResourceAmount) -> bool:
        """Whether every quota up to the pool has room for so much more, for cards of that kind."""
        return self.quotas.admit_shape(tenant, shape, amount) is not None

    def list_leaving_for(self, claim: str) -> list[RunningJob]:
        """Return the jobs on whose seats the claim may count.

        They leave for this claim, or for one that is already placed.
        """
        return [
            *self.running_jobs.list_leaving_for(claim),
            *self.running_jobs.list_leaving_for_others(self.pending_claims),
        ]

    # --- steps ------------------------------------------------------------------------------

    def seat_claim(
        self, tenant: str, shape: Shape, among: Bools | None = None
    ) -> TentativePlacement | None:
        """Place the claim where the policy says, on these nodes; None, and nothing changed, if
        nowhere.
        """
        if not self.quotas.has_limits:
            return self._seat_on_models(tenant, shape, shape, among)
        kept = self.quotas.admit_shape(tenant, shape, self.compute_least(shape))
        if kept is None:
            return None
        own = self.quotas.narrow_to_guaranteed_models(tenant, kept, self.compute_least(shape))
        # First on models of which it borrows nothing: there nobody takes the seats back.
        found = None if own is None else self._seat_on_models(tenant, shape, own, among)
        return found or self._seat_on_models(tenant, shape, kept, among)

    def _seat_on_models(
        self, tenant: str, shape: Shape, kept: Shape, among: Bools | None
    ) -> TentativePlacement | None:
        """The same on the models that the shape is narrowed to."""
        room = self.quotas.get_headroom(tenant).size
        closed = self.quotas.find_closed_cards(tenant)
        ranking = self.board.get_ranking(kept)
        nodes = self._find_nodes(
            ranking.fit, room, exclude_closed(closed, ranking.fit, self.free, among), closed
        )
        # Before the ranking is asked: scores of changed nodes are computed when they are needed.
        if not nodes.any():
            return None
        node = ranking.find_best(
            None if nodes is ranking.fit.roomy else nodes, self._make_preference(ranking.fit)
        )
        if node is None:
            return None
        rows = select_affordable(self._order_cards(ranking, node, closed), ranking.fit, room)
        # The node has enough cards, but those that the claim may have are too far apart.
        if len(rows) < shape.count:
            return None
        # Before the seats are taken: afterwards the node has another score.
        scored = self.board.explain_score(ranking, node, rows)
        took = self.board.take_seats(ranking.fit, node, rows)
        seated = TentativePlacement(
            shape, node, rows, ranking.fit.need[rows], int(np.count_nonzero(nodes)), took, scored
        )
        self.quotas.add_seats(tenant, rows, shape.held_milli, seated.sizes)
        return seated

    def seat_claims(
        self, tenant: str, shape: Shape, count: int, among: Bools | None = None
    ) -> list[TentativePlacement]:
        """Place as many of `count` equal claims as find seats, each where `seat_claim` puts it.

        Where the policy says that equal claims follow each other, there is one search per card and
        not one per claim.
        """
        found = list[TentativePlacement]()
        while len(found) < count and (seated := self.seat_claim(tenant, shape, among)):
            found += [seated, *self._seat_followers(tenant, seated, count - len(found) - 1)]
        return found

    def _seat_followers(
        self, tenant: str, first: TentativePlacement, most: int
    ) -> list[TentativePlacement]:
        """Equal claims that go on the same card as the first one; at most `most`."""
        shape = first.shape
        rows = first.rows
        if most <= 0 or not self._is_following(tenant, first):
            return []
        fit = self.get_fit(shape)
        claims = self._count_followers(
            tenant,
            fit,
            first,
            min(most, count_fits_on_card(self.free, fit, first.node, int(rows[0]))),
        )
        if not claims:
            return []
        self.board.take_equal_seats(fit, first.node, rows, claims)
        self.quotas.add_seats(tenant, rows, shape.held_milli * claims, first.sizes * claims)
        return [
            TentativePlacement(shape, first.node, rows, first.sizes, first.choice, first.took)
            for _ in range(claims)
        ]

    def _is_following(self, tenant: str, first: TentativePlacement) -> bool:
        """Whether only the policy and amounts decide where the next claim goes."""
        quotas = self.quotas
        shape = first.shape
        by_amount = not quotas.has_model_limits and quotas.find_closed_cards(tenant) is None
        if shape.memory_bytes is None:
            by_amount = by_amount and quotas.get_headroom(tenant).size is None
        simple = (
            shape.profile is None
            and first.took == NOTHING
            and not numa_affinity.is_numa_relevant(self.free, shape)
        )
        return (
            by_amount
            and simple
            and not self.board.keeps_scores
            and self.board.rater.can_reuse_card(shape)
        )

    def _count_followers(
        self, tenant: str, fit: ClaimFit, first: TentativePlacement, most: int
    ) -> int:
        """Of so many more equal claims, as many as every quota surely has room for."""
        shape = first.shape
        # A later claim holds what the first one does on that card; its quota is checked with the
        # least.
        size = max(int(first.sizes.sum()), self.compute_least(shape).memory_bytes)
        while (
            most
            and self.quotas.admit_shape(
                tenant, shape, ResourceAmount(shape.held_milli * most, size * most)
            )
            is None
        ):
            # Halving needs few checks of all quotas. Claims left out get their turns one by one.
            most //= 2
        return most

    def release_jobs(self, running: Iterable[RunningJob]) -> None:
        """Release the seats of these jobs, as if they had ended."""
        for job in running:
            self.board.release_job(job)
            self.quotas.release_job(job)

    def mark(self) -> TransactionMark:
        """Return where a trial begins."""
        return TransactionMark(self.board.mark(), self.quotas.mark())

    def rollback(self, mark: TransactionMark) -> None:
        """Undo every change since the mark."""
        self.board.rollback(mark.board)
        self.quotas.rollback(mark.quotas)

    def keep(self, mark: TransactionMark) -> None:
        """End the trial and keep its changes; an outer trial can still undo them."""
        self.board.keep(mark.board)

    # --- parts ------------------------------------------------------------------------------

    def _order_cards(self, ranking: NodeRanking, node: int, closed: Bools | None) -> Ints:
        """The node's cards, best first, without those that are kept whole for others."""
        if closed is None or not closed[self.free.get_node_rows(node)].any():
            return self.board.order_cards(ranking, node)
        rows = ranking.order_cards(node)
        return numa_affinity.order_by_numa_affinity(self.free, ranking.fit, rows[~closed[rows]])

    def _find_nodes(
        self, fit: ClaimFit, room: int | None, among: Bools | None, closed: Bools | None
    ) -> Bools:
        """Nodes inside the quota's rest and among those asked for, as near together as the claim
        requires.
        """
        nodes = find_roomy_nodes(fit, self.free, room)
        return self.select_near_nodes(fit, nodes if among is None else nodes & among, closed)

    def _make_preference(self, fit: ClaimFit) -> Callable[[Ints], Bools] | None:
        """Selects nodes that hold the claim as near together as it prefers; None without a
        preference.
        """
        level = fit.shape.within.preferred
        shape = fit.shape
        if level is None or find_depth(self.levels, level):
            return None
        if level == LinkKind.NUMA and numa_affinity.is_numa_relevant(self.free, shape):
            return lambda nodes: (
                numa_affinity.count_claims_by_node(fit, self.free, self.free.open)[nodes] > 0
            )
        return (
            (lambda nodes: self.board.linked.find_nodes(fit, nodes, level))
            if shape.count > 1
            else None
        )

    def select_near_nodes(self, fit: ClaimFit, nodes: Bools, closed: Bools | None = None) -> Bools:
        """Return those of the nodes on which the claim's cards can be as near together as it
        requires.
        """
        level = fit.shape.within.required
        if numa_affinity.is_numa_required(fit.shape):
            open_ = np.ones(len(self.free.cards), dtype=np.bool_) if closed is None else ~closed
            return nodes & (numa_affinity.count_claims_by_node(fit, self.free, open_) > 0)
        if level is None or fit.shape.count <= 1 or find_depth(self.levels, level):
            return nodes
        linked = np.zeros_like(nodes)
        asked = np.flatnonzero(nodes)
        linked[asked] = self.board.linked.find_nodes(fit, asked, level)
        return linked
