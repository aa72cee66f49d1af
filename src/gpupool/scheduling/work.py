"""What one cycle changes while it decides: seats on the board, and what each tenant holds. All of it can be undone.

The steps that placing, gangs, keeping and preemption are made of; which of them comes when is the cycle's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.partition import Placement as Place
from gpupool.model.quota import Amount
from gpupool.model.topology import LinkKind
from gpupool.scheduling import near
from gpupool.scheduling.board import NOTHING, Board, Took
from gpupool.scheduling.board import Mark as BoardMark
from gpupool.scheduling.domains import depth_of, ladder
from gpupool.scheduling.feasible import FITS, Fit, roomy_nodes
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.quota_change import Change
from gpupool.scheduling.quotas import Mark as QuotaMark
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.snapshot import Bools, Ints, Kept, Placement, Running, Scored, Snapshot


@dataclass(frozen=True, eq=False)
class Seated:
    """Where one claim sits; `choice` is the number of nodes that it could have had.

    `places`: of partitions, which piece of each card.
    """

    shape: Shape
    node: int
    rows: Ints
    sizes: Ints
    choice: int
    took: Took = NOTHING
    scored: Scored | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """Of partitions, which piece of each card."""
        return self.took.places


class Mark(NamedTuple):
    board: BoardMark
    quotas: QuotaMark


class Work:
    """The snapshot as it becomes while a plan is made."""

    def __init__(self, snapshot: Snapshot, board: Board) -> None:
        self.snapshot, self.board, self.free = snapshot, board, board.free
        self.roster = board.roster
        self.quotas = Quotas(snapshot, board.free, board.size)
        self.levels = ladder(snapshot.cards)
        self._held: list[Seated] = []
        self._traded: list[Change] = []
        """What has changed hands in the quotas though nobody has left or sat down yet."""
        self._gone: set[str] = set()
        self._kept: dict[str, Seated] = {}
        self._least: dict[Shape, Amount] = {}
        self.waits: set[str] = set()
        """Jobs and gangs without seats; the cycle keeps it."""

    # --- questions --------------------------------------------------------------------------

    def fit(self, shape: Shape) -> Fit:
        """The shape judged against what is free now."""
        return self.board.ranking(shape).fit

    def copies(self, shape: Shape) -> Ints:
        """Per node how many such claims it could hold now."""
        return self.board.copies(shape)

    def least(self, shape: Shape) -> Amount:
        """The least that the claim will hold, over all its seats."""
        if shape not in self._least:
            least = None if shape.memory_bytes is None else shape.memory_bytes * shape.count
            size = self.fit(shape).least_bytes if least is None else least
            self._least[shape] = Amount(shape.held_milli * shape.count, size)
        return self._least[shape]

    def covers(self, tenant: str, shape: Shape, amount: Amount) -> bool:
        """Whether every quota up to the pool has room for so much more, for cards of that kind."""
        return self.quotas.admitted(tenant, shape, amount) is not None

    def coming(self, claim: str) -> list[Running]:
        """Whose seats the claim may count on: they leave for it, or for one that sits already."""
        return [*self.roster.leaving_for(claim), *self.roster.freed_beside(self.waits)]

    # --- steps ------------------------------------------------------------------------------

    def seat(self, tenant: str, shape: Shape, among: Bools | None = None) -> Seated | None:
        """The claim takes the seats that the policy gives it (on these nodes); None, and nothing changed, if none."""
        if not self.quotas.limited:
            return self._seat(tenant, shape, shape, among)
        kept = self.quotas.admitted(tenant, shape, self.least(shape))
        if kept is None:
            return None
        own = self.quotas.own_models(tenant, kept, self.least(shape))
        found = None if own is None else self._seat(tenant, shape, own, among)
        return found or self._seat(tenant, shape, kept, among)

    def _seat(self, tenant: str, shape: Shape, kept: Shape, among: Bools | None) -> Seated | None:
        """The same on the models that the shape is kept to."""
        room, closed = self.quotas.room(tenant).size, self.quotas.closed(tenant)
        ranking = self.board.ranking(kept)
        nodes = self._nodes(ranking.fit, room, _outside(closed, ranking.fit, self.free, among), closed)
        if not nodes.any():  # scores are mended when somebody needs them
            return None
        node = ranking.best(None if nodes is ranking.fit.roomy else nodes, self._wished(ranking.fit))
        if node is None:
            return None
        rows = affordable(self._order(ranking, node, closed), ranking.fit, room)
        if len(rows) < shape.count:  # the node's cards that the claim may have are not near enough together
            return None
        scored = self.board.scored(ranking, node, rows)
        took = self.board.take(ranking.fit, node, rows)
        seated = Seated(shape, node, rows, ranking.fit.need[rows], int(np.count_nonzero(nodes)), took, scored)
        self.quotas.take(tenant, rows, shape.held_milli, seated.sizes)
        return seated

    def seat_many(self, tenant: str, shape: Shape, count: int, among: Bools | None = None) -> list[Seated]:
        """As many of so many equal claims as find seats, one after the other: each sits where `seat` puts it.

        Where the policy says that claims follow each other there is one search for each card, not one for each claim.
        """
        found = list[Seated]()
        while len(found) < count and (seated := self.seat(tenant, shape, among)):
            found += [seated, *self._following(tenant, seated, count - len(found) - 1)]
        return found

    def _following(self, tenant: str, first: Seated, most: int) -> list[Seated]:
        """Claims equal to one that just sat down which sit down on its card too; at most so many."""
        shape, rows = first.shape, first.rows
        if most <= 0 or not self._follows(tenant, first):
            return []
        fit = self.fit(shape)
        claims = self._beside(tenant, fit, first, min(most, copies_on(self.free, fit, first.node, int(rows[0]))))
        if not claims:
            return []
        self.board.take_more(fit, first.node, rows, claims)
        self.quotas.take(tenant, rows, shape.held_milli * claims, first.sizes * claims)
        return [Seated(shape, first.node, rows, first.sizes, first.choice, first.took) for _ in range(claims)]

    def _follows(self, tenant: str, first: Seated) -> bool:
        """Whether only the policy and amounts decide where the next one sits."""
        quotas, shape = self.quotas, first.shape
        by_amount = not quotas.by_model and quotas.closed(tenant) is None
        if shape.memory_bytes is None:
            by_amount = by_amount and quotas.room(tenant).size is None
        simple = shape.profile is None and first.took == NOTHING and not near.concerns(self.free, shape)
        return by_amount and simple and not self.board.keeps_scores and self.board.rater.follows(shape)

    def _beside(self, tenant: str, fit: Fit, first: Seated, most: int) -> int:
        """Of so many more claims like it, as many as every quota surely has room for."""
        shape = first.shape
        size = max(int(first.sizes.sum()), self.least(shape).memory_bytes)
        while most and self.quotas.admitted(tenant, shape, Amount(shape.held_milli * most, size * most)) is None:
            most //= 2
        return most

    def release(self, running: Iterable[Running]) -> None:
        """As if these jobs had ended."""
        for job in running:
            self.board.release(job)
            self.quotas.release(job)

    def hold(self, seated: Iterable[Seated]) -> None:
        """Nobody who comes later in this cycle gets these seats, also where others have not left them yet."""
        for one in seated:
            self.board.hold(one.shape, one.node, one.rows, one.sizes, one.took)
            self._held.append(one)

    def trade(self, tenant: str, seated: Iterable[Seated], leaving: Iterable[Running]) -> None:
        """Hold these seats for the tenant, and count them as its own already, and not as theirs who leave for it."""
        seats = list(seated)
        self.hold(seats)
        for one in seats:
            self._traded += self.quotas.trade(tenant, one.rows, one.shape.held_milli, one.sizes)
        for job in leaving:
            if job.job not in self._gone:
                self._gone.add(job.job)
                self._traded += self.quotas.trade_in(job)

    def hold_for(self, kept: Kept) -> None:
        """Nobody but this job gets these seats."""
        rows = np.array(kept.rows, dtype=np.int64)
        node = int(self.snapshot.cards.node[rows[0]])
        sizes, numa = np.array(kept.sizes, dtype=np.int64), self.board.divide(kept.shape, node, rows)
        self._kept[kept.job] = Seated(kept.shape, node, rows, sizes, 1, Took((), numa))
        self.hold([self._kept[kept.job]])

    def seat_kept(self, tenant: str, job: str) -> Seated | None:
        """The job takes the seats that are kept for it; None where none are, or it cannot have them any more."""
        seated = self._kept.pop(job, None)
        if seated is None:
            return None
        self._held.remove(seated)
        self.board.lift(seated.shape, seated.node, seated.rows, seated.sizes, seated.took)
        fit = self.fit(seated.shape)
        if (fit.why[seated.rows] != FITS).any() or not self.covers(tenant, seated.shape, self.least(seated.shape)):
            return None
        if len(near.order(self.free, fit, seated.rows)) < len(seated.rows):
            return None
        took = self.board.take(fit, seated.node, seated.rows)
        self.quotas.take(tenant, seated.rows, seated.shape.held_milli, seated.sizes)
        return replace(seated, took=took)

    def lift(self) -> None:
        """Show again what is held."""
        for one in self._held:
            self.board.lift(one.shape, one.node, one.rows, one.sizes, one.took)
        self._held.clear()
        for change in reversed(self._traded):
            change.undo(self.quotas.tree)
        self._traded.clear()
        self._gone.clear()
        self._kept.clear()

    def mark(self) -> Mark:
        return Mark(self.board.mark(), self.quotas.mark())

    def rollback(self, mark: Mark) -> None:
        self.board.rollback(mark.board)
        self.quotas.rollback(mark.quotas)

    def keep(self, mark: Mark) -> None:
        self.board.keep(mark.board)

    # --- parts ------------------------------------------------------------------------------

    def _order(self, ranking: Ranking, node: int, closed: Bools | None) -> Ints:
        """The node's cards, best first, without those that are kept whole for others."""
        if closed is None or not closed[self.free.of_node(node)].any():
            return self.board.choose(ranking, node)
        rows = ranking.choose(node)
        return near.order(self.free, ranking.fit, rows[~closed[rows]])

    def _nodes(self, fit: Fit, room: int | None, among: Bools | None, closed: Bools | None) -> Bools:
        """Where the claim may go: within the quota's rest, on the nodes asked for, as near together as it requires."""
        nodes = roomy_nodes(fit, self.free, room)
        return self.together(fit, nodes if among is None else nodes & among, closed)

    def _wished(self, fit: Fit) -> Callable[[Ints], Bools] | None:
        """Which nodes can hold the claim as near together inside as it wishes; None where it wishes nothing there."""
        level, shape = fit.shape.within.preferred, fit.shape
        if level is None or depth_of(self.levels, level):
            return None
        if level == LinkKind.NUMA and near.concerns(self.free, shape):
            return lambda nodes: near.copies(fit, self.free, self.free.open)[nodes] > 0
        return (lambda nodes: self.board.linked.nodes(fit, nodes, level)) if shape.count > 1 else None

    def together(self, fit: Fit, nodes: Bools, closed: Bools | None = None) -> Bools:
        """Those of the nodes on which the claim's cards can be as near together as it requires."""
        level = fit.shape.within.required
        if near.required(fit.shape):
            open_ = np.ones(len(self.free.cards), dtype=np.bool_) if closed is None else ~closed
            return nodes & (near.copies(fit, self.free, open_) > 0)
        if level is None or fit.shape.count <= 1 or depth_of(self.levels, level):
            return nodes
        linked, asked = np.zeros_like(nodes), np.flatnonzero(nodes)
        linked[asked] = self.board.linked.nodes(fit, asked, level)
        return linked


def _outside(closed: Bools | None, fit: Fit, free: Free, among: Bools | None) -> Bools | None:
    """Of the nodes asked for, those with enough fitting cards that are not closed."""
    if closed is None:
        return among
    enough: Bools = free.count_by_node((fit.why == FITS) & ~closed) >= fit.shape.count
    return enough if among is None else enough & among


def copies_on(free: Free, fit: Fit, node: int, row: int) -> int:
    """How many more shares of the shape one card of the node has room for, with their processors and main memory."""
    shape = fit.shape
    wanted = (
        (int(free.milli[row]), shape.held_milli),
        (int(free.size[row]), int(fit.need[row])),
        (int(free.cpu_milli[node]), shape.cpu_milli),
        (int(free.host_bytes[node]), shape.host_bytes),
    )
    return max(0, min((left // each for left, each in wanted if each), default=0))


def affordable(order: Ints, fit: Fit, room: int | None) -> Ints:
    """The first `count` rows of the order, passing over cards whose seat would break the quota's rest."""
    count = fit.shape.count
    if room is None or fit.shape.memory_bytes is not None:
        return order[:count]
    chosen: list[int] = []
    for place, row in enumerate(order):
        later = np.sort(fit.need[order[place + 1 :]])[: count - len(chosen) - 1]
        if len(chosen) < count and int(fit.need[row]) + int(later.sum()) <= room:
            chosen.append(int(row))
            room -= int(fit.need[row])
    return np.array(chosen, dtype=np.int64)


def placement(snapshot: Snapshot, free: Free, rater: Rater, job: str, seated: Seated, gang: str = "") -> Placement:
    """What the ledger is to write."""
    cards, milli = snapshot.cards, seated.shape.held_milli
    places: Iterable[Place | None] = seated.places or [None] * len(seated.rows)
    each = zip(seated.rows.tolist(), seated.sizes.tolist(), places, strict=True)
    seats = tuple(Seat(cards.uuids[row], milli, size, place) for row, size, place in each)
    generations = tuple(cards.generation[seated.rows].tolist())
    name = cards.nodes[seated.node]
    why = why_there(rater, name, seated.choice, len(seats)) if not seated.places else _why_cut(name, seated)
    return Placement(job, name, seats, generations, why, gang, free.numa.parts(seated.took.numa), seated.scored)


def why_there(rater: Rater, node: str, choice: int, seats: int) -> str:
    """The sentence of a placement, of so many nodes and cards."""
    among = f"{rater.NODE} of {choice} nodes that fit" if choice > 1 else "only node that fits"
    where = f"on its {rater.CARD} card" if seats == 1 else f"on its {rater.CARD} {seats} cards"
    return f"{node} is the {among}; {where}"


def _why_cut(node: str, seated: Seated) -> str:
    among = f"the one of {seated.choice} nodes that fit" if seated.choice > 1 else "the only node that fits"
    starts = ", ".join(str(place.start) for place in seated.places)
    return f"{node} is {among} where the cut leaves most; from unit {starts} of its card on"
