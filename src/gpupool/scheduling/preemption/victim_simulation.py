"""Simulated eviction: the working copy, on which victims are released as a claim needs their seats.

Where a claim finds no room, the cheapest victims on one node make it. The search is a heuristic:
nodes are ordered by the price of their cheapest cards, and the best few are tried with the fewest
victims that suffice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.partition_fit import count_partitions
from gpupool.scheduling.preemption.victims import EvictionBudgets, Victim
from gpupool.scheduling.snapshot.columns import Bools, Floats, Ints
from gpupool.scheduling.workspace.seat_steps import TransactionMark
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)
from gpupool.scheduling.workspace.transaction import PlanningTransaction

#: So many of the nodes that look cheapest are tried.
TRIED_NODES = 8

#: Weight of lost work against the number of evictions; sums stay exact in a float.
_EVICTION = 1 << 12


class VictimSimulation:
    """Gives seats as `PlanningTransaction` does and releases victims where there is no room."""

    def __init__(
        self, work: PlanningTransaction, candidates: Sequence[Victim], budgets: EvictionBudgets
    ) -> None:
        self._work = work
        self._budgets = budgets
        self.levels = work.levels
        # The key ends in a job id: the order, and with it the choice among equal victims, is total.
        self._candidates = sorted(candidates, key=lambda victim: victim.key)
        #: The policy step before which a candidate was released, and its number.
        self._released: list[tuple[int, int]] = []
        self._build_columns()
        self._most: dict[Shape, Ints] = {}

    @property
    def released_victims(self) -> list[Victim]:
        """Victims released so far."""
        return [self._candidates[n] for _, n in self._released]

    # --- as Work does it --------------------------------------------------------------------

    def seat_claim(
        self, tenant: str, shape: Shape, among: Bools | None = None
    ) -> TentativePlacement | None:
        """Place the claim, and release victims if it finds no room."""
        seated = self._work.seat_claim(tenant, shape, among)
        if seated is None and self._make_room(shape, among):
            seated = self._work.seat_claim(tenant, shape, among)
        return seated

    def seat_claims(
        self, tenant: str, shape: Shape, count: int, among: Bools | None = None
    ) -> list[TentativePlacement]:
        """Place equal claims one after the other, until one finds no room."""
        found = list[TentativePlacement]()
        while len(found) < count:
            found += self._work.seat_claims(tenant, shape, count - len(found), among)
            if len(found) == count or (seated := self.seat_claim(tenant, shape, among)) is None:
                break
            found.append(seated)
        return found

    def count_fits(self, shape: Shape) -> Ints:
        """Return per node an upper bound of such claims if every candidate were released."""
        if shape not in self._most:
            mark = self._work.mark()
            for n in np.flatnonzero(self._find_remaining()):
                self._work.release_jobs(self._candidates[n].jobs)
            self._most[shape] = self._work.count_fits(shape).copy()
            self._work.rollback(mark)
        return self._most[shape]

    def mark(self) -> TransactionMark:
        return self._work.mark()

    def rollback(self, mark: TransactionMark) -> None:
        self._work.rollback(mark)
        # A victim was released in the trial if its policy step came after the mark; its seats are
        # back.
        self._released = [(heard, n) for heard, n in self._released if heard < mark.board.heard]

    def keep(self, mark: TransactionMark) -> None:
        self._work.keep(mark)

    # --- making room ------------------------------------------------------------------------

    def _make_room(self, shape: Shape, among: Bools | None) -> bool:
        best: tuple[int, int, list[int]] | None = None
        for node, rows in self._list_target_nodes(shape, among):
            for chosen in self._find_candidates(shape, node, rows):
                price = sum(self._costs[chosen].tolist()), sum(self._jobs[chosen].tolist()), chosen
                best = price if best is None or price[:2] < best[:2] else best
        for n in best[2] if best else ():
            self._release_candidate(n)
        return best is not None

    def _find_candidates(self, shape: Shape, node: int, rows: Ints) -> list[list[int]]:
        """Candidates that free these cards; where the host lacks capacity, those on any card of the
        node.
        """
        found = self._find_fewest_by_order(shape, node, rows)
        # Jobs on other cards of the node hold its processors and main memory too.
        if not any(found) and (shape.cpu_milli or shape.host_bytes):
            return self._find_fewest_by_order(shape, node, self._work.free.get_node_rows(node))
        return found

    def _find_fewest_by_order(self, shape: Shape, node: int, rows: Ints) -> list[list[int]]:
        found = list[list[int]]()
        for order in self._order_candidates(rows):
            fewest = self._find_fewest(shape, node, order)
            if fewest is not None:
                found.append(fewest)
        return found

    def _list_target_nodes(self, shape: Shape, among: Bools | None) -> list[tuple[int, Ints]]:
        """Nodes that look cheapest, each with its cheapest cards; cards that fit already cost
        nothing.
        """
        fit = self._work.get_fit(shape)
        nodes = self._work.free.cards.node
        cost, usable = self._price_cards(fit)
        if among is not None:
            usable &= among[nodes]
        rows = np.flatnonzero(usable)
        rows = rows[np.lexsort((cost[rows], nodes[rows]))]
        nth = np.arange(len(rows)) - np.searchsorted(nodes[rows], nodes[rows])
        # `nth` is a card's place among the usable ones of its node, cheapest first.
        rows, nth = rows[nth < shape.count], nth[nth < shape.count]
        enough = nodes[rows[nth == shape.count - 1]]
        total = np.bincount(nodes[rows], weights=cost[rows], minlength=len(self._work.free.rank))
        order = enough[np.lexsort((self._work.free.rank[enough], total[enough]))]
        return [(int(node), rows[nodes[rows] == node]) for node in order[:TRIED_NODES]]

    def _price_cards(self, fit: ClaimFit) -> tuple[Floats, Bools]:
        """What freeing each card costs (evictions break ties), and whether it then takes a seat."""
        free = self._work.free
        there = self._find_remaining()[self._of]
        rows = self._rows[there]
        cards = len(free.cards)
        milli = free.milli + np.bincount(rows, weights=self._milli[there], minlength=cards).astype(
            np.int64
        )
        size = free.size + np.bincount(rows, weights=self._size[there], minlength=cards).astype(
            np.int64
        )
        cost = np.bincount(rows, weights=self._prices[self._of[there]], minlength=cards).astype(
            np.float64
        )
        if fit.shape.is_whole:
            usable = (milli >= WHOLE) & (size >= free.untouched_bytes)
        else:
            usable = (milli >= fit.shape.held_milli) & (size >= fit.need)
        usable &= fit.fixed == FITS
        if fit.shape.owner or free.owners.is_used:
            usable &= ~free.owners.find_closed(fit.shape.owner, slice(None), milli, size)
        if fit.shape.profile is not None:
            usable &= self._find_cuttable_cards(fit.shape.profile)
        return np.where(fit.why == FITS, 0.0, cost), usable

    def _find_cuttable_cards(self, profile: str) -> Bools:
        """Cards with an open place once the candidates on them are gone."""
        free = self._work.free
        left = dict(free.layouts)
        found = np.zeros(len(free.cards), dtype=np.bool_)
        for n in np.flatnonzero(self._find_remaining()).tolist():
            for job in self._candidates[n].jobs:
                for row, piece in zip(job.rows, job.slots, strict=True) if job.slots else ():
                    left[row] = left[row].without_slot(piece)
        for row, cut in left.items():
            # Freed pieces join up: only the whole layout says whether the profile has a place.
            found[row] = count_partitions(cut.profiles, cut.slots, profile) > 0
        return found

    def _order_candidates(self, rows: Ints) -> list[list[int]]:
        """Candidates on these cards: the cheapest first, and those that give most for their price
        first.
        """
        there = np.isin(self._rows, rows) & self._find_remaining()[self._of]
        found = np.unique(self._of[there]).tolist()
        gain = np.bincount(
            self._of[there], weights=self._milli[there] + 1, minlength=len(self._candidates)
        )
        # Two greedy orders, since neither is right alone: cheapest first takes many small jobs
        # where a single large one would do, and cheapest per milli takes a large one where a small
        # one suffices.
        return [found, sorted(found, key=lambda n: (self._costs[n] / gain[n], n))]

    def _find_fewest(self, shape: Shape, node: int, order: list[int]) -> list[int] | None:
        """The first of these that make room on the node, without those that are not needed."""
        chosen: list[int] = []
        for n in order:
            if self._has_room(shape, node, chosen):
                break
            chosen.append(n)
        if not self._is_allowed(chosen) or not self._has_room(shape, node, chosen):
            return None
        # From the dearest on: the greedy order may have taken cheap victims that a later one made
        # needless.
        for n in sorted(chosen, reverse=True):
            fewer = [other for other in chosen if other != n]
            if self._has_room(shape, node, fewer):
                chosen = fewer
        return chosen

    def _has_room(self, shape: Shape, node: int, gone: list[int]) -> bool:
        mark = self._work.mark()
        for n in gone:
            self._work.release_jobs(self._candidates[n].jobs)
        fit = self._work.get_fit(shape)
        roomy = bool(fit.roomy[node])
        if roomy and shape.within.required is not None:
            roomy = bool(self._work.select_near_nodes(fit, np.arange(len(fit.roomy)) == node)[node])
        self._work.rollback(mark)
        return roomy

    def _is_allowed(self, more: list[int]) -> bool:
        return self._budgets.is_allowed(
            [*self.released_victims, *(self._candidates[n] for n in more)]
        )

    def _release_candidate(self, n: int) -> None:
        self._released.append((self._work.board.policy_steps, n))
        self._work.release_jobs(self._candidates[n].jobs)

    # --- columns ----------------------------------------------------------------------------

    def _build_columns(self) -> None:
        """One entry per seat of a candidate: its card, what it holds, and the candidate's number."""
        seats = list[tuple[int, int, int, int]]()
        for n, victim in enumerate(self._candidates):
            for job in victim.jobs:
                for row, milli, size in zip(job.rows, job.milli, job.sizes, strict=True):
                    seats.append((row, milli, size, n))
        table = np.array(seats, dtype=np.int64).reshape(-1, 4)
        self._rows, self._milli, self._size, self._of = table.T
        self._costs = np.array([victim.price for victim in self._candidates], dtype=np.int64)
        self._jobs = np.array([victim.count for victim in self._candidates], dtype=np.int64)
        # One number that orders by lost work, then by the number of jobs (below 4,096 on one card).
        # Lost work of a month on eight cards is below 2^35 milli-device-seconds, so sums stay below
        # 2^53.
        self._prices = self._costs * _EVICTION + self._jobs

    def _find_remaining(self) -> Bools:
        """Candidates that still run."""
        still = np.ones(len(self._candidates), dtype=np.bool_)
        still[[n for _, n in self._released]] = False
        return still
