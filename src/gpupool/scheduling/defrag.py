"""Which jobs to move so that whole cards of one node come free together: a plan with its gain and its price.

Nothing here moves anything. A plan is made on a copy, each of its moves proven by the filter that places claims; a
solver (`defrag_solver`) may say which nodes to empty, and is believed only as far as that goes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpupool.scheduling.move_limits import Limits, Spent
from gpupool.scheduling.moves import Clearing, Move, Mover
from gpupool.scheduling.snapshot import Snapshot
from gpupool.scheduling.spare import NOTHING, Reserved


@dataclass(frozen=True)
class Gain:
    """What is free before and after: whole cards, nodes of which all cards are whole, blocks that were asked for.

    What a reservation holds is not free.
    """

    cards: tuple[int, int]
    nodes: tuple[int, int]
    blocks: tuple[int, int]


@dataclass(frozen=True)
class DefragPlan:
    """Moves in the order in which they can be made, and what they bring and cost."""

    generation: int
    moves: tuple[Move, ...]
    gain: Gain
    lost_seconds: int
    lost_gpu_seconds: int
    by: str
    """Who chose: `greedy`, `cp-sat` (within its time) or `cp-sat, proven best`."""
    reserved: Reserved = NOTHING

    @property
    def rank(self) -> tuple[int, int, int]:
        """Best first: more blocks, less lost work, fewer moves."""
        return -self.gain.blocks[1], self.lost_seconds, len(self.moves)


Solver = Callable[[Mover, Sequence[Clearing], int | None], tuple[list[int], str] | None]
"""Given what could be cleared and how many blocks are wanted: nodes to clear, and by whom; None: it has no answer."""


def defrag(
    snapshot: Snapshot,
    now_ns: int,
    *,
    block: int | None = None,
    wanted: int | None = None,
    limits: Limits | None = None,
    solver: Solver | None = None,
) -> DefragPlan:
    """A plan for at most `wanted` more blocks of `block` whole cards on one node (None: as many, whole nodes).

    With a solver, the better of its plan and the greedy one.
    """
    limits = limits or Limits()
    plans = [_greedy(Mover(snapshot, now_ns, block), wanted, limits)]
    chosen = _ask(solver, Mover(snapshot, now_ns, block), wanted)
    if chosen is not None:
        plans.append(_by_solver(Mover(snapshot, now_ns, block), *chosen, limits))
    return min(plans, key=lambda plan: plan.rank)


def _ask(solver: Solver | None, mover: Mover, wanted: int | None) -> tuple[list[int], str] | None:
    return None if solver is None else solver(mover, clearings(mover), wanted)


def clearings(mover: Mover) -> list[Clearing]:
    """Every node's cheapest way to one more block, cheapest first."""
    found = (mover.clearing(node) for node in range(len(mover.snapshot.cards.nodes)))
    return sorted((one for one in found if one is not None), key=lambda one: one.rank)


def _greedy(mover: Mover, wanted: int | None, limits: Limits) -> DefragPlan:
    """Clear what is cheapest, again and again; what was set down meanwhile is priced anew before it is believed."""
    work = _Work(mover, limits)
    heap = [(one.rank, one) for one in clearings(mover)]
    while heap and (wanted is None or work.gained < wanted):
        _, stood = heapq.heappop(heap)
        now = mover.clearing(stood.node)
        if now is not None and now.rank > stood.rank:
            heapq.heappush(heap, (now.rank, now))
        elif now is not None and work.clear(now) and (more := mover.clearing(now.node)) is not None:
            heapq.heappush(heap, (more.rank, more))
    return work.plan("greedy")


def _by_solver(mover: Mover, nodes: Sequence[int], by: str, limits: Limits) -> DefragPlan:
    work = _Work(mover, limits)
    mover.cleared[nodes] = True  # nothing is set down on a node that is about to be cleared
    for node in nodes:
        clearing = mover.clearing(node)
        if clearing is not None:
            work.clear(clearing)
    return work.plan(by)


class _Work:
    """Clearings done so far, within the limits."""

    def __init__(self, mover: Mover, limits: Limits) -> None:
        self.mover, self.gained = mover, 0
        self._spent = Spent(limits)
        self._before = _state(mover)

    def clear(self, clearing: Clearing) -> bool:
        tenants = [self.mover.jobs[place].tenant for place in clearing.jobs]
        if not self._spent.allows(tenants, clearing.lost_seconds, clearing.lost_gpu_seconds):
            return False
        moves = self.mover.clear(clearing)
        if moves is None:
            return False
        self._spent.add(moves)
        self.gained += 1
        return True

    def plan(self, by: str) -> DefragPlan:
        gain = Gain(*zip(self._before, _state(self.mover), strict=True))
        spent = self._spent
        generation, reserved = self.mover.snapshot.generation, self.mover.reserved
        lost = spent.lost_seconds, spent.lost_gpu_seconds
        return DefragPlan(generation, tuple(spent.moves), gain, *lost, by, reserved)


def _state(mover: Mover) -> tuple[int, int, int]:
    whole, sizes = mover.whole(), mover.free.count_by_node(mover.free.milli >= 0)
    nodes = int(((whole == sizes) & (sizes > 0)).sum())
    return int(whole.sum()), nodes, mover.blocks()
