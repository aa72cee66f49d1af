"""Everything a plan asks about quotas, in the words of claims and cards: one working copy, with trials.

quotas = Quotas(snapshot, free)
queue = Queue(waiting, lambda i: quotas.outranked(...), lambda i: quotas.standing(...))
shape = quotas.admitted(tenant, shape, least)      # None: over a maximum; else perhaps kept to some models
closed = quotas.closed(tenant)                     # cards that are kept whole for others
quotas.take(tenant, rows, milli, sizes)            # and rollback(mark) undoes it
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.model.quota import GPU, MEMORY, Amount, Resource
from gpupool.scheduling import wording, wording_reach
from gpupool.scheduling.cells import CellQuotas
from gpupool.scheduling.columns import Taken
from gpupool.scheduling.fair_share import Dues, overdrawn
from gpupool.scheduling.fairness import UNLIMITED, Budget, Standing, room, smallest, standing, tightest
from gpupool.scheduling.feasible import Kind, kinds_of
from gpupool.scheduling.free import Free
from gpupool.scheduling.model_options import helps, inside, own_models, ways
from gpupool.scheduling.pool_size import PoolSize, pool_size
from gpupool.scheduling.quota_change import Change
from gpupool.scheduling.quota_node import Use
from gpupool.scheduling.quota_tree import Exhausted, Tree
from gpupool.scheduling.reclaim import Lot, borrowed, lots, reclaimable, used, used_by
from gpupool.scheduling.snapshot import Bools, Ints, Running, Snapshot

PREEMPTIBLE = "submit it with --preemptible: then it may use what others are guaranteed, until they need it"
HINT = "an admin can raise it: gpupool quota set"


class Mark(NamedTuple):
    """Where a trial began."""

    trees: tuple[int, ...]
    cells: int


@dataclass(frozen=True, eq=False)
class Later:
    """What somebody is promised: `tree` is as it will be at that start, with this use of the tenant's in it."""

    tree: Tree
    tenant: str
    use: Use
    firm: bool
    """It may not be preempted then."""
    start_ns: int
    end_ns: int
    gone: Container[str]
    """Running jobs that have ended by then."""
    collects: bool = False
    """It waits for jobs of unknown end: what they give back is kept for it from now on."""
    claim: str = ""
    """Of a start that the last plan promised, the job or gang that it is kept for."""

    def met(self, since_ns: int, until_ns: int) -> bool:
        """Whether who runs from then until then has to find room beside it at its start."""
        return self.collects or since_ns < self.start_ns < until_ns

    def covers(self, instant_ns: int) -> bool:
        """Whether it runs at that instant."""
        return not self.collects and self.start_ns <= instant_ns < self.end_ns


class Quotas:
    """What every tenant may hold, holds, and is due, as it becomes while a plan is made."""

    def __init__(self, snapshot: Snapshot, free: Free, size: PoolSize | None = None) -> None:
        """`size` of the snapshot's cards, where it is known already."""
        self.cards = snapshot.cards
        self._tenants, self._cohorts = snapshot.tenants, snapshot.cohorts
        self._standings: dict[str, tuple[int, Standing]] = {}
        """By tenant, with the number of changes of the tree before which it was computed."""
        self.later: list[Later] = []
        self.window: tuple[int, int] | None = None
        """From when until when the claim that is asked for would run; None: nothing promised is looked at."""
        self.firm = True
        """Whether the claim that is asked for may not be preempted."""
        self.tree = Tree(snapshot.tenants, snapshot.cohorts, size or pool_size(snapshot.cards))
        self._count_models(snapshot.running)
        if self.tree.firm is not None:
            self._count_firm(self.tree.firm, snapshot)
        self.cells = CellQuotas(self.tree, free, snapshot.running)

    def _count_models(self, running: Iterable[Running]) -> None:
        # Tenants' totals are in the snapshot; what they hold of single models is in their running jobs.
        for lot in lots(running, self.tree, self.cards) if self.tree.models else ():
            self.tree.take(lot.tenant, {r: amount for r, amount in lot.use.items() if r in self.tree.models})

    def _count_firm(self, firm: Tree, snapshot: Snapshot) -> None:
        # All that is held, but for what is known to be preemptible; of single models, as their running jobs say.
        for name, view in snapshot.tenants.items():
            firm.take(name, {GPU: view.held.gpu_milli, MEMORY: view.held.memory_bytes})
        for job in snapshot.running:
            if job.tenant in firm.leaves and job.preemptible:
                firm.give(job.tenant, {GPU: sum(job.milli), MEMORY: sum(job.sizes)})
            elif job.tenant in firm.leaves and firm.models:
                use = used(job, firm, self.cards)
                firm.take(job.tenant, {r: amount for r, amount in use.items() if r in firm.models})

    # --- answers -------------------------------------------------------------------------

    @property
    def limited(self) -> bool:
        """Whether anybody has a limit: without one nobody borrows and nothing is lacking but cards."""
        return bool(self.tree.resources)

    @property
    def by_model(self) -> bool:
        """Whether any quota is of cards of one model or vendor."""
        return bool(self.tree.models)

    @property
    def by_compute(self) -> bool:
        """Whether quotas, if there are any, are of the compute of whatever cards."""
        return self.tree.resources <= {GPU}

    def met(self) -> list[Tree]:
        """The quotas as they will be at the promised starts that the claim asked for would meet."""
        return [one.tree for one in self.later if one.met(*self.window)] if self.window else []

    def borrows(self, tenant: str, shape: Shape, least: Amount) -> bool:
        """Whether the claim would go over what its tenant is guaranteed, on whatever cards."""
        return not inside(self.tree, tenant, ways(self.tree, shape, least))

    def outranked(self, tenant: str, shape: Shape, least: Amount) -> bool:
        """Whether the claim's turn comes after those of claims inside what their tenants are guaranteed."""
        return all(self.tree.outranked(tenant, way) for way in ways(self.tree, shape, least))

    def guarantors(self, tenant: str) -> str:
        """Names for people of the nodes that guarantee something to the tenant, and less than all there is.

        Where all of a node is the tenant's and the node has no maximum, its quota keeps no claim away: cards do.
        """
        nodes = [(self.tree.owed(tenant, resource), resource) for resource in sorted(self.tree.resources)]
        return ", ".join(dict.fromkeys(node.title for node, resource in nodes if not node.is_undivided(resource)))

    def standing(self, tenant: str) -> Standing:
        """Where the tenant stands in the fair share; lower goes first."""
        known = self._standings.get(tenant)
        if known is None or known[0] != self.tree.changes:
            known = self.tree.changes, standing(self.tree, tenant)
            self._standings[tenant] = known
        return known[1]

    def room(self, tenant: str) -> Budget:
        """What the tenant may still take by every quota up to the pool."""
        if not self.limited:
            return UNLIMITED
        return tightest(room(tree, tenant) for tree in self._asked())

    def admitted(self, tenant: str, shape: Shape, least: Amount) -> Shape | None:
        """The claim as it may be placed: kept to the models of which its tenant may hold more; None: not now."""
        if not self.limited:
            return shape
        may: Shape | None = shape
        for tree in self._asked():
            if may is not None:
                may = tree.narrowed(tenant, may) if tree.covers(tenant, tree.ask(shape, least)) else None
        return may

    def own_models(self, tenant: str, shape: Shape, least: Amount) -> Shape | None:
        """The claim kept to the models of which it borrows nothing; None where that is no other claim."""
        return own_models(self.tree, tenant, shape, least)

    def covers(self, tenant: str, use: Use) -> bool:
        """Whether there is room for so much more in everything that the claim that is asked for would meet."""
        return all(tree.covers(tenant, use) for tree in self._asked())

    def promised(self, tenant: str, shape: Shape, least: Amount, window: tuple[int, int]) -> Later | None:
        """The first promise beside which the claim, were it to run from then until then, finds no room in a quota."""
        return self.promised_use(tenant, self.tree.ask(shape, least), window)

    def promised_use(self, tenant: str, use: Use, window: tuple[int, int]) -> Later | None:
        """The same of so much more from then until then."""
        met = (one for one in self.later if one.met(*window))
        without = (one for one in met if any(not tree.covers(tenant, use) for tree in self.sides(one.tree)))
        return min(without, key=lambda one: one.start_ns, default=None)

    def lacking(self, tenant: str, shape: Shape, least: Amount) -> str:
        """The node below the pool whose quota has no room for the claim; empty where it is cards that lack, if any."""
        for tree in self._asked() if self.limited else ():
            found = tree.exhausted(tenant, tree.ask(shape, least)) or self._no_model(tenant, shape, tree)
            if found:
                return found.node.title if found.node.parent or (tree.firm is None and found.kept) else ""
        return ""

    def full(self, tenant: str, shape: Shape, least: Amount) -> frozenset[str] | None:
        """The tenants below the lowest node whose quota has no room for the claim; None where it is cards that lack.

        Nobody, where it is not use that fills the quota, but what is kept for others.
        """
        for tree in self._asked():
            found = tree.exhausted(tenant, tree.ask(shape, least)) or self._no_model(tenant, shape, tree)
            if found is None:
                continue
            if not (found.node.parent or (tree.firm is None and found.kept)):
                return None
            number = found.node.number
            below = (name for name, leaf in tree.leaves.items() if any(node.number == number for node in leaf.path()))
            return frozenset() if tree.firm is None else frozenset(below)
        return None

    def _asked(self) -> list[Tree]:
        """Everything in which the claim that is asked for has to find room."""
        return [side for tree in (self.tree, *self.met()) for side in self.sides(tree)]

    def sides(self, tree: Tree) -> list[Tree]:
        """The tree, and for a claim that may not be preempted that of what may not."""
        return [tree, tree.firm] if self.firm and tree.firm is not None else [tree]

    def closed(self, tenant: str) -> Bools | None:
        """Cards that are kept whole for others; None when there is none."""
        return self.cells.closed(tenant)

    def reclaimable(self, tenant: str, shape: Shape, least: Amount, running: Iterable[Running]) -> tuple[Lot, ...]:
        """What borrowers may be made to give back for a claim inside what its tenant is guaranteed, in order."""
        for way in inside(self.tree, tenant, ways(self.tree, shape, least)):
            found = reclaimable(self.tree, tenant, way, running, self.cards)
            if helping := tuple(lot for lot in found if helps(self.tree, way, lot.use)):
                return helping
        return ()

    def overdrawn(
        self, tenant: str, shape: Shape, least: Amount, running: Iterable[Running], due: Dues, priority: int
    ) -> tuple[Lot, ...]:
        """What others hold beyond their due that a claim within its tenant's may have, in order."""
        return overdrawn(self.tree, tenant, self.tree.ask(shape, least), running, self.cards, due, priority)

    def borrowed(self, running: Iterable[Running]) -> frozenset[str]:
        """The jobs among these that run on borrowed quota."""
        found = borrowed(self.tree, running, self.cards)
        return frozenset(job.job for each in found.values() for lot in each for job in lot.jobs)

    def rejection(self, tenant: str, shape: Shape, least: Amount) -> Rejection | None:
        """Why the claim must wait for its own people first, or can never be: names what is exhausted, and where."""
        use = self.tree.ask(shape, least)
        kept = _kept_by_others(self.out_of_reach(tenant, use), firm=self.firm)
        return beyond(self.tree, tenant, use) or kept or self.in_use(tenant, shape, least)

    def out_of_reach(self, tenant: str, use: Use) -> Exhausted | None:
        """Where there would be no room for so much even if nobody held anything, as the quotas are now."""
        return next((found for side in self.sides(self._empty) if (found := side.exhausted(tenant, use))), None)

    @cached_property
    def _empty(self) -> Tree:
        views = {name: replace(view, held=Amount()) for name, view in self._tenants.items()}
        return Tree(views, self._cohorts, self.tree.size)

    def in_use(self, tenant: str, shape: Shape, amount: Amount) -> Rejection | None:
        """What is exhausted now for a claim that would take so much, and where."""
        return _said(
            side.exhausted(tenant, side.ask(shape, amount)) or self._no_model(tenant, shape, side)
            for side in self.sides(self.tree)
        )

    def no_room(self, tenant: str, use: Use) -> Rejection | None:
        """What is exhausted now for so much more on cards that are known, and where."""
        return _said(side.exhausted(tenant, use) for side in self.sides(self.tree))

    def left(self, tenant: str, resource: Resource) -> int | None:
        """How much more of it the tenant may hold by every quota up to the pool; None is no limit."""
        return smallest(tree.room(tenant, resource) for tree in self._asked())

    def most(self, tenant: str, resource: Resource) -> int | None:
        """How much of it the tenant could hold if nobody held anything; None is no limit."""
        return smallest(side.room(tenant, resource) for side in self.sides(self._empty))

    def models_out(self, tenant: str, shape: Shape) -> str:
        """Which model the tenant may hold no more of, though the claim would take it."""
        found = self._no_model(tenant, shape, self.tree, some=True)
        return _in_use(found).sentence if found else ""

    def _no_model(self, tenant: str, shape: Shape, tree: Tree, *, some: bool = False) -> Exhausted | None:
        if not some and tree.narrowed(tenant, shape) is not None:
            return None
        milli = shape.held_milli * shape.count
        found = (tree.exhausted(tenant, {resource: milli}) for resource in tree.models)
        return next((one for one in found if one is not None), None)

    # --- changes -------------------------------------------------------------------------

    def use_of(self, taken: Taken) -> Use:
        """What these seats take of every resource that is counted."""
        seats = zip(taken.rows.tolist(), taken.milli.tolist(), taken.sizes.tolist(), strict=True)
        return used_by(seats, self.tree, self.cards)

    def take(self, tenant: str, rows: Ints, milli: int, sizes: Ints | Sequence[int]) -> None:
        """The tenant holds seats of so many milli on these cards."""
        use = self._use_of_seats(rows, milli, sum(sizes if isinstance(sizes, Sequence) else sizes.tolist()))
        for tree in (self.tree, *self.met()):
            tree.take(tenant, use, firm=self.firm)
        self.cells.take(tenant, rows)

    def _use_of_seats(self, rows: Ints, milli: int, size: int) -> Use:
        if not self.by_model:
            return {GPU: milli * len(rows), MEMORY: size}
        return self.tree.seats([self._kinds[at] for at in self.cards.model[rows].tolist()], milli, size)

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        return kinds_of(self.cards)

    def trade(self, tenant: str, rows: Ints, milli: int, sizes: Ints) -> list[Change]:
        """As `take`, in the quotas of now alone, and to be undone by itself."""
        use = self._use_of_seats(rows, milli, int(np.sum(sizes)))
        return [Change.made(self.tree, tenant, use, 1, firm=self.firm)]

    def trade_in(self, job: Running) -> list[Change]:
        """As `release`, in the same way."""
        if job.tenant not in self.tree.leaves:
            return []
        use = used(job, self.tree, self.cards)
        return [Change.made(self.tree, job.tenant, use, -1, firm=not job.preemptible)]

    def release(self, job: Running) -> None:
        """As if the job had ended."""
        if job.tenant in self.tree.leaves:
            use = used(job, self.tree, self.cards)
            for tree in (self.tree, *(one.tree for one in self.later if job.job not in one.gone)):
                tree.give(job.tenant, use, firm=not job.preemptible)
            self.cells.give(job.tenant, np.array(job.rows, dtype=np.int64))

    def mark(self) -> Mark:
        return Mark(tuple(tree.mark() for tree in self._trees()), self.cells.mark())

    def restart(self) -> None:
        """Undo everything: as it was in the snapshot."""
        self.later.clear()
        self.rollback(Mark((0,), 0))

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark."""
        for tree, at in zip(self._trees(), mark.trees, strict=False):
            tree.rollback(at)
        self.cells.rollback(mark.cells)

    def _trees(self) -> list[Tree]:
        return [self.tree, *(one.tree for one in self.later)]


def beyond(tree: Tree, tenant: str, use: Use) -> Rejection | None:
    """The refusal of what is more than the tenant, or a cohort above it, may ever hold."""
    for node in tree.leaves[tenant].path():
        for resource, more in use.items():
            limit = node.limits.get(resource)
            if limit and limit.maximum is not None and more > limit.maximum:
                sentence = wording.beyond(node.title, resource, more, limit.nominal or 0, limit.borrowing or 0)
                return Rejection(sentence, Reason.QUOTA, fits_ever=False, hint=HINT)
    return None


def _said(found: Iterable[Exhausted | None]) -> Rejection | None:
    """The first "no", of the quotas and then of what others are guaranteed."""
    said = (say(one) for say, one in zip((_in_use, _guaranteed_to_others), found, strict=False) if one is not None)
    return next(said, None)


def _kept_by_others(found: Exhausted | None, *, firm: bool) -> Rejection | None:
    """What no end of a job changes, only whoever sets the quotas."""
    if found is None:
        return None
    numbers = found.resource, found.most, found.kept, found.more
    sentence = wording_reach.kept_by_others(found.node.title, *numbers, preemptible=not firm)
    return Rejection(sentence, Reason.QUOTA, hint=PREEMPTIBLE if firm else "")


def _in_use(found: Exhausted) -> Rejection:
    sentence = wording.exhausted(found.node.title, found.resource, found.held, found.most, found.kept, found.more)
    return Rejection(sentence, Reason.QUOTA)


def _guaranteed_to_others(found: Exhausted) -> Rejection:
    """Why a claim that may not be preempted has to leave free cards alone."""
    numbers = found.resource, found.held, found.most, found.kept, found.more
    return Rejection(wording.guaranteed_to_others(found.node.title, *numbers), Reason.QUOTA, hint=PREEMPTIBLE)
