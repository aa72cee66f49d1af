"""Which shares to move so that the cards they are on are loaded more alike: a plan with its gain and its price.

The sibling of `defrag`, which gathers; this spreads, for whom it helps: shares that may use more than they hold compete
less, and heat and power are spread as well. Nothing here moves anything. Every move fits beside all that runs now, so
the seats of a whole plan can be kept before anybody leaves.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpupool.base.fairness import jain
from gpupool.model.claim import Sharing
from gpupool.scheduling import near
from gpupool.scheduling.move_limits import Limits, Spent
from gpupool.scheduling.moves import Move, Mover, is_movable, lost_gpu_seconds, lost_seconds
from gpupool.scheduling.snapshot import Bools, Ints, Running, Snapshot
from gpupool.scheduling.spare import NOTHING, Reserved

STEP_MILLI = 100


@dataclass(frozen=True)
class Spread:
    """How the load lies on the cards that shares are on, in milli-devices; all 0 where there are none."""

    cards: int
    highest_milli: int
    mean_milli: int
    jain: float
    """1.0 when all carry the same; before and after over the same cards, those that shares are on after."""


@dataclass(frozen=True)
class RebalancePlan:
    """Moves in the order in which they were found, and what they bring and cost."""

    generation: int
    moves: tuple[Move, ...]
    before: Spread
    after: Spread
    lost_seconds: int
    reserved: Reserved = NOTHING


def rebalance(
    snapshot: Snapshot,
    now_ns: int,
    *,
    step_milli: int = STEP_MILLI,
    use_free_cards: bool = False,
    limits: Limits | None = None,
) -> RebalancePlan:
    """Again and again one share from the most loaded card that can lose one to the least loaded that takes it.

    A move must bring two cards of one model nearer together by more than `step_milli`. A card without load is left
    free, unless `use_free_cards`: whole cards are worth more than even load.
    """
    balance = _Balance(Mover(snapshot, now_ns, None), step_milli, use_free_cards, Spent(limits or Limits()))
    at_first = balance.load.copy()
    while balance.once():
        pass
    spent, whole = balance.spent, loads(snapshot, whole=True)
    shared = balance.load > whole
    before, after = (_spread(load, load > whole, shared) for load in (at_first, balance.load))
    reserved = balance.mover.reserved
    return RebalancePlan(snapshot.generation, tuple(spent.moves), before, after, spent.lost_seconds, reserved)


def loads(snapshot: Snapshot, whole: bool = False) -> Ints:
    """Per card what jobs hold of its compute; of best effort what they asked for. Who moves counts where it goes.

    `whole`: what jobs of whole cards alone hold. Cards in partition mode carry no shares, and so no load.
    """
    load = np.zeros(len(snapshot.cards), dtype=np.int64)
    for kept in snapshot.kept:
        if kept.shape.whole or not whole:
            load[list(kept.rows)] += kept.shape.gpu_milli
    moving = {kept.job for kept in snapshot.kept}
    for job in snapshot.running:
        if job.job not in moving and (job.shape.whole or not whole):
            load[list(job.rows)] += _load(job)
    load[np.fromiter(snapshot.cards.cuts, dtype=np.int64)] = 0
    return load


def can_spread(job: Running) -> bool:
    """A share of one card that may be moved; whole cards have nothing to gain."""
    return job.shape.count == 1 and not job.shape.whole and is_movable(job)


def _load(job: Running) -> Ints:
    best_effort = job.shape.sharing is Sharing.BEST_EFFORT
    return np.array([job.shape.gpu_milli] * len(job.rows) if best_effort else job.milli, dtype=np.int64)


def _spread(load: Ints, shared: Bools, among: Bools) -> Spread:
    used = load[shared]
    mean = int(used.sum()) // max(len(used), 1)
    return Spread(len(used), int(used.max(initial=0)), mean, jain(load[among].tolist()))


class _Shift(NamedTuple):
    """One share to another card. The smallest is the best: what it evens out, then what it loses."""

    evened: int
    """Less than 0: by how much the two cards' difference shrinks."""
    lost_seconds: int
    place: int
    """In `Snapshot.running`."""
    row: int


class _Balance:
    """Loads and jobs as they would be after the moves so far."""

    def __init__(self, mover: Mover, step_milli: int, use_free_cards: bool, spent: Spent) -> None:
        self.mover, self.spent = mover, spent
        self.load = loads(mover.snapshot)
        self._step, self._use_free_cards = step_milli, use_free_cards
        self._moved: set[int] = set()

    def once(self) -> bool:
        """Every card in turn, the most loaded first, until none has a share to lose; whether something moved."""
        queue = [self._turn(row) for row in np.flatnonzero(self.load).tolist()]
        heapq.heapify(queue)
        moved = False
        while queue:
            turn = heapq.heappop(queue)
            row = turn[-1]
            if turn == self._turn(row) and (shift := self._best(row)) is not None:
                self._move(shift)
                heapq.heappush(queue, self._turn(row))
                heapq.heappush(queue, self._turn(shift.row))
                moved = True
        return moved

    def _turn(self, row: int) -> tuple[int, int, int]:
        free = self.mover.free
        return -int(self.load[row]), int(free.rank[free.cards.node[row]]), row

    def _best(self, row: int) -> _Shift | None:
        jobs = self.mover.jobs
        places = [place for place in self.mover.on(row) if place not in self._moved and can_spread(jobs[place])]
        return min((one for place in places if (one := self._shift(place, row)) is not None), default=None)

    def _shift(self, place: int, row: int) -> _Shift | None:
        job = self.mover.jobs[place]
        lost = lost_seconds(job, self.mover.now_ns)
        if not self.spent.allows([job.tenant], lost, lost_gpu_seconds(job, self.mover.now_ns)):
            return None
        to = self._least_loaded(place, row)
        if to is None:
            return None
        apart = int(self.load[row] - self.load[to])
        evened = abs(apart - int(_load(job)[0]) - job.shape.gpu_milli) - apart
        return _Shift(evened, lost, place, to) if evened < -self._step else None

    def _least_loaded(self, place: int, row: int) -> int | None:
        """The card of the row's model, in use unless others may be used, that takes the job beside all that runs."""
        free, model = self.mover.free, self.mover.snapshot.cards.model
        takes, fit = self.mover.takes(place) & (model == model[row]), self.mover.fit(self.mover.jobs[place].shape)
        if near.required(fit.shape):
            takes &= near.cards(fit, free)
        if not self._use_free_cards:
            takes &= self.load > 0
        takes[row] = False
        rows = np.flatnonzero(takes)
        if len(rows) == 0:
            return None
        rows = rows[self.load[rows] == self.load[rows].min()]
        return int(rows[np.argmin(free.rank[free.cards.node[rows]])])

    def _move(self, shift: _Shift) -> None:
        job, row = self.mover.jobs[shift.place], int(self.mover.rows[shift.place][0])
        node = int(self.mover.snapshot.cards.node[shift.row])
        self.spent.add([self.mover.seat(shift.place, node, np.array([shift.row], dtype=np.int64))])
        self._moved.add(shift.place)
        self.load[row] -= _load(job)[0]
        self.load[shift.row] += job.shape.gpu_milli
