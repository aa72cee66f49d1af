"""Rebalancing: which shares to move so that cards are loaded more evenly.

The counterpart of `defragment`, which gathers. Shares that may use more than they hold compete less
when they are spread, and so are heat and power. Nothing here moves anything. Every move fits beside
all that runs now, so the seats of a whole plan can be held before the first job leaves.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpupool.base.fairness import compute_jain_index
from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.rebalancing.move_limits import MoveTally, RebalancingLimits
from gpupool.scheduling.rebalancing.workspace import (
    Move,
    MoveWorkspace,
    compute_lost_gpu_seconds,
    compute_lost_seconds,
    is_movable,
)
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.unreserved_capacity import NOTHING, ReservedAmounts

#: A move must bring two cards nearer together by more than this, in milli-devices.
STEP_MILLI = 100


@dataclass(frozen=True)
class LoadSpread:
    """Load on the cards that shares are on, in milli-devices; all 0 where there are none."""

    cards: int
    highest_milli: int
    mean_milli: int
    #: Jain's index: 1.0 when all carry the same. Before and after are over the cards with shares
    #: after.
    jain: float


@dataclass(frozen=True)
class RebalancePlan:
    """Moves in the order in which they were found, their effect and their cost."""

    generation: int
    moves: tuple[Move, ...]
    before: LoadSpread
    after: LoadSpread
    lost_seconds: int
    reserved: ReservedAmounts = NOTHING


def plan_rebalancing(
    snapshot: Snapshot,
    now_ns: int,
    *,
    step_milli: int = STEP_MILLI,
    use_free_cards: bool = False,
    limits: RebalancingLimits | None = None,
) -> RebalancePlan:
    """Move one share after the other from the most loaded card to the least loaded that takes it.

    Args:
        snapshot: the pool.
        now_ns: its instant.
        step_milli: a move brings two cards of one model nearer together by more than this.
        use_free_cards: also use cards without load; otherwise they stay free, because whole cards
            are worth more than even load.
        limits: how far the plan may go.
    """
    balance = _RebalancingRun(
        MoveWorkspace(snapshot, now_ns, None),
        step_milli,
        use_free_cards,
        MoveTally(limits or RebalancingLimits()),
    )
    at_first = balance.load.copy()
    while balance.move_shares():
        pass
    spent = balance.spent
    whole = measure_loads(snapshot, whole=True)
    shared = balance.load > whole
    before = _measure_spread(at_first, at_first > whole, shared)
    after = _measure_spread(balance.load, shared, shared)
    reserved = balance.mover.reserved
    return RebalancePlan(
        snapshot.generation, tuple(spent.moves), before, after, spent.lost_seconds, reserved
    )


def measure_loads(snapshot: Snapshot, whole: bool = False) -> Ints:
    """Measure per card what jobs hold of its compute; a moving job counts where it goes.

    Jobs without a promise count what they asked for. Cards in partition mode carry no shares, so no load.

    Args:
        snapshot: the pool.
        whole: count only jobs of whole cards.
    """
    load = np.zeros(len(snapshot.cards), dtype=np.int64)
    for kept in snapshot.migration_holds:
        if kept.shape.is_whole or not whole:
            load[list(kept.rows)] += kept.shape.gpu_milli
    moving = {kept.job for kept in snapshot.migration_holds}
    for job in snapshot.running:
        if job.job not in moving and (job.shape.is_whole or not whole):
            load[list(job.rows)] += _measure_job_load(job)
    load[np.fromiter(snapshot.cards.layouts, dtype=np.int64)] = 0
    return load


def is_rebalanceable(job: RunningJob) -> bool:
    """Whether the job is a share of one card that may be moved; whole cards gain nothing."""
    return job.shape.count == 1 and not job.shape.is_whole and is_movable(job)


def _measure_job_load(job: RunningJob) -> Ints:
    held = job.shape.sharing.promises_compute
    return np.array(job.milli if held else [job.shape.gpu_milli] * len(job.rows), dtype=np.int64)


def _measure_spread(load: Ints, shared: Bools, among: Bools) -> LoadSpread:
    used = load[shared]
    mean = int(used.sum()) // max(len(used), 1)
    return LoadSpread(
        len(used), int(used.max(initial=0)), mean, compute_jain_index(load[among].tolist())
    )


class _Shift(NamedTuple):
    """One share to another card. The smallest is the best: what it evens out, then what it loses."""

    #: Below 0: by how much the two cards' difference shrinks.
    evened: int
    lost_seconds: int
    #: In `Snapshot.running`.
    place: int
    row: int


class _RebalancingRun:
    """Loads and jobs as they would be after the moves so far."""

    def __init__(
        self, mover: MoveWorkspace, step_milli: int, use_free_cards: bool, spent: MoveTally
    ) -> None:
        self.mover = mover
        self.spent = spent
        self.load = measure_loads(mover.snapshot)
        self._step = step_milli
        self._use_free_cards = use_free_cards
        self._moved: set[int] = set()

    def move_shares(self) -> bool:
        """Visit every card, the most loaded first, until none can lose a share; return whether one
        moved.
        """
        queue = [self._rank_card(row) for row in np.flatnonzero(self.load).tolist()]
        heapq.heapify(queue)
        moved = False
        while queue:
            turn = heapq.heappop(queue)
            row = turn[-1]
            # An entry whose card has changed since is stale; the card is in the queue again with
            # its new load.
            if turn == self._rank_card(row) and (shift := self._find_best_shift(row)) is not None:
                self._apply_shift(shift)
                heapq.heappush(queue, self._rank_card(row))
                heapq.heappush(queue, self._rank_card(shift.row))
                moved = True
        return moved

    def _rank_card(self, row: int) -> tuple[int, int, int]:
        free = self.mover.free
        return -int(self.load[row]), int(free.rank[free.cards.node[row]]), row

    def _find_best_shift(self, row: int) -> _Shift | None:
        jobs = self.mover.jobs
        shifts = list[_Shift]()
        for place in self.mover.list_jobs_on(row):
            # Each job moves once: its seats of the first move are held until it has moved.
            if place not in self._moved and is_rebalanceable(jobs[place]):
                shift = self._find_shift(place, row)
                if shift is not None:
                    shifts.append(shift)
        return min(shifts, default=None)

    def _find_shift(self, place: int, row: int) -> _Shift | None:
        job = self.mover.jobs[place]
        lost = compute_lost_seconds(job, self.mover.now_ns)
        if not self.spent.is_allowed(
            [job.tenant], lost, compute_lost_gpu_seconds(job, self.mover.now_ns)
        ):
            return None
        to = self._find_least_loaded_card(place, row)
        if to is None:
            return None
        apart = int(self.load[row] - self.load[to])
        evened = abs(apart - int(_measure_job_load(job)[0]) - job.shape.gpu_milli) - apart
        return _Shift(evened, lost, place, to) if evened < -self._step else None

    def _find_least_loaded_card(self, place: int, row: int) -> int | None:
        """The least loaded card of the same model that takes the job beside all that runs."""
        free = self.mover.free
        model = self.mover.snapshot.cards.model
        takes = self.mover.find_open_cards(place) & (model == model[row])
        fit = self.mover.get_fit(self.mover.jobs[place].shape)
        if numa_affinity.is_numa_required(fit.shape):
            takes &= numa_affinity.find_sufficient_cards(fit, free)
        if not self._use_free_cards:
            takes &= self.load > 0
        takes[row] = False
        rows = np.flatnonzero(takes)
        if len(rows) == 0:
            return None
        rows = rows[self.load[rows] == self.load[rows].min()]
        return int(rows[np.argmin(free.rank[free.cards.node[rows]])])

    def _apply_shift(self, shift: _Shift) -> None:
        job = self.mover.jobs[shift.place]
        row = int(self.mover.rows[shift.place][0])
        node = int(self.mover.snapshot.cards.node[shift.row])
        self.spent.add_moves(
            [self.mover.seat_job(shift.place, node, np.array([shift.row], dtype=np.int64))]
        )
        self._moved.add(shift.place)
        self.load[row] -= _measure_job_load(job)[0]
        self.load[shift.row] += job.shape.gpu_milli
