"""Seats that running work would have to give back first: the working copy, on which victims are released as needed.

Where a claim finds no room, the cheapest victims on one node make it. Cheapest is found, not proven: nodes are ordered
by what their cheapest cards would cost, and the best few are tried in earnest, with the fewest victims that do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.partitions import room
from gpupool.scheduling.snapshot import Bools, Floats, Ints
from gpupool.scheduling.victims import Budgets, Victim
from gpupool.scheduling.work import Mark, Seated, Work

TRIED_NODES = 8
"""So many of the nodes that look cheapest are tried in earnest."""

_EVICTION = 1 << 12
"""Lost work counts before the number of evictions; sums stay exact in a float."""


class Clearing:
    """Gives seats as `Work` does, releasing victims where there is no room; `released` are those so far."""

    def __init__(self, work: Work, candidates: Sequence[Victim], budgets: Budgets) -> None:
        self._work, self._budgets, self.levels = work, budgets, work.levels
        self._candidates = sorted(candidates, key=lambda victim: victim.key)
        self._out: list[tuple[int, int]] = []
        """(what the board had heard before, number of the candidate)."""
        self._lay_out()
        self._most: dict[Shape, Ints] = {}

    @property
    def released(self) -> list[Victim]:
        return [self._candidates[n] for _, n in self._out]

    # --- as Work does it --------------------------------------------------------------------

    def seat(self, tenant: str, shape: Shape, among: Bools | None = None) -> Seated | None:
        seated = self._work.seat(tenant, shape, among)
        if seated is None and self._make_room(shape, among):
            seated = self._work.seat(tenant, shape, among)
        return seated

    def seat_many(self, tenant: str, shape: Shape, count: int, among: Bools | None = None) -> list[Seated]:
        """One after the other, until one finds none."""
        found = list[Seated]()
        while len(found) < count:
            found += self._work.seat_many(tenant, shape, count - len(found), among)
            if len(found) == count or (seated := self.seat(tenant, shape, among)) is None:
                break
            found.append(seated)
        return found

    def copies(self, shape: Shape) -> Ints:
        """Per node how many such claims it could hold if every candidate were gone; at most, once seats are taken."""
        if shape not in self._most:
            mark = self._work.mark()
            for n in np.flatnonzero(self._in()):
                self._work.release(self._candidates[n].jobs)
            self._most[shape] = self._work.copies(shape).copy()
            self._work.rollback(mark)
        return self._most[shape]

    def mark(self) -> Mark:
        return self._work.mark()

    def rollback(self, mark: Mark) -> None:
        self._work.rollback(mark)
        self._out = [(heard, n) for heard, n in self._out if heard < mark.board.heard]

    def keep(self, mark: Mark) -> None:
        self._work.keep(mark)

    # --- making room ------------------------------------------------------------------------

    def _make_room(self, shape: Shape, among: Bools | None) -> bool:
        best: tuple[int, int, list[int]] | None = None
        for node, rows in self._targets(shape, among):
            for chosen in self._chosen(shape, node, rows):
                price = sum(self._costs[chosen].tolist()), sum(self._jobs[chosen].tolist()), chosen
                best = price if best is None or price[:2] < best[:2] else best
        for n in best[2] if best else ():
            self._release(n)
        return best is not None

    def _chosen(self, shape: Shape, node: int, rows: Ints) -> list[list[int]]:
        """Candidates that make room on these cards; where it is the host that lacks, on any card of the node."""
        found = [self._fewest(shape, node, order) for order in self._orders(rows)]
        if not any(found) and (shape.cpu_milli or shape.host_bytes):
            found = [self._fewest(shape, node, order) for order in self._orders(self._work.free.of_node(node))]
        return [one for one in found if one is not None]

    def _targets(self, shape: Shape, among: Bools | None) -> list[tuple[int, Ints]]:
        """Nodes that look cheapest, each with its cards that do; cards that fit already cost nothing."""
        fit, nodes = self._work.fit(shape), self._work.free.cards.node
        cost, usable = self._by_card(fit)
        if among is not None:
            usable &= among[nodes]
        rows = np.flatnonzero(usable)
        rows = rows[np.lexsort((cost[rows], nodes[rows]))]
        nth = np.arange(len(rows)) - np.searchsorted(nodes[rows], nodes[rows])
        rows, nth = rows[nth < shape.count], nth[nth < shape.count]
        enough = nodes[rows[nth == shape.count - 1]]
        total = np.bincount(nodes[rows], weights=cost[rows], minlength=len(self._work.free.rank))
        order = enough[np.lexsort((self._work.free.rank[enough], total[enough]))]
        return [(int(node), rows[nodes[rows] == node]) for node in order[:TRIED_NODES]]

    def _by_card(self, fit: Fit) -> tuple[Floats, Bools]:
        """What emptying each card of its candidates costs (evictions break ties), and whether it then takes a seat."""
        free, there = self._work.free, self._in()[self._of]
        rows, cards = self._rows[there], len(free.cards)
        milli = free.milli + np.bincount(rows, weights=self._milli[there], minlength=cards).astype(np.int64)
        size = free.size + np.bincount(rows, weights=self._size[there], minlength=cards).astype(np.int64)
        cost = np.bincount(rows, weights=self._prices[self._of[there]], minlength=cards).astype(np.float64)
        if fit.shape.whole:
            usable = (milli >= WHOLE) & (size >= free.cards.memory_bytes)
        else:
            usable = (milli >= fit.shape.held_milli) & (size >= fit.need)
        usable &= fit.fixed == FITS
        if fit.shape.profile is not None:
            usable &= self._cuttable(fit.shape.profile)
        return np.where(fit.why == FITS, 0.0, cost), usable

    def _cuttable(self, profile: str) -> Bools:
        """Which cards have an open place once the candidates on them are gone."""
        free = self._work.free
        left, found = dict(free.cuts), np.zeros(len(free.cards), dtype=np.bool_)
        for n in np.flatnonzero(self._in()).tolist():
            for job in self._candidates[n].jobs:
                for row, piece in zip(job.rows, job.places, strict=True) if job.places else ():
                    left[row] = left[row].minus(piece)
        for row, cut in left.items():
            found[row] = room(cut.profiles, cut.taken, profile) > 0
        return found

    def _orders(self, rows: Ints) -> list[list[int]]:
        """Candidates on these cards: the cheapest first, and those that give most for their price first."""
        there = np.isin(self._rows, rows) & self._in()[self._of]
        found = np.unique(self._of[there]).tolist()
        gain = np.bincount(self._of[there], weights=self._milli[there] + 1, minlength=len(self._candidates))
        return [found, sorted(found, key=lambda n: (self._costs[n] / gain[n], n))]

    def _fewest(self, shape: Shape, node: int, order: list[int]) -> list[int] | None:
        """The first of these that make room on the node, without those that turn out not to be needed."""
        chosen: list[int] = []
        for n in order:
            if self._roomy(shape, node, chosen):
                break
            chosen.append(n)
        if not self._allowed(chosen) or not self._roomy(shape, node, chosen):
            return None
        for n in sorted(chosen, reverse=True):
            fewer = [other for other in chosen if other != n]
            if self._roomy(shape, node, fewer):
                chosen = fewer
        return chosen

    def _roomy(self, shape: Shape, node: int, gone: list[int]) -> bool:
        mark = self._work.mark()
        for n in gone:
            self._work.release(self._candidates[n].jobs)
        fit = self._work.fit(shape)
        roomy = bool(fit.roomy[node])
        if roomy and shape.within.required is not None:
            roomy = bool(self._work.together(fit, np.arange(len(fit.roomy)) == node)[node])
        self._work.rollback(mark)
        return roomy

    def _allowed(self, more: list[int]) -> bool:
        return self._budgets.allow([*self.released, *(self._candidates[n] for n in more)])

    def _release(self, n: int) -> None:
        self._out.append((self._work.board.heard, n))
        self._work.release(self._candidates[n].jobs)

    # --- columns ----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """One entry per seat of a candidate: its card, what it holds, whose it is."""
        seats = [
            (row, milli, size, n)
            for n, victim in enumerate(self._candidates)
            for job in victim.jobs
            for row, milli, size in zip(job.rows, job.milli, job.sizes, strict=True)
        ]
        table = np.array(seats, dtype=np.int64).reshape(-1, 4)
        self._rows, self._milli, self._size, self._of = table.T
        self._costs = np.array([victim.price for victim in self._candidates], dtype=np.int64)
        self._jobs = np.array([victim.count for victim in self._candidates], dtype=np.int64)
        self._prices = self._costs * _EVICTION + self._jobs

    def _in(self) -> Bools:
        """Which candidates still run."""
        still = np.ones(len(self._candidates), dtype=np.bool_)
        still[[n for _, n in self._out]] = False
        return still
