"""Defragmentation: which jobs to move so that whole cards of one node become free together.

Nothing here moves anything. A plan is made on a copy, and the filter that places claims proves each
move. A solver (`defragment_cp_sat`) may say which nodes to empty; its answer counts only as far as
the filter proves it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpupool.scheduling.rebalancing.move_limits import MoveTally, RebalancingLimits
from gpupool.scheduling.rebalancing.workspace import Move, MoveWorkspace, NodeClearing
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.unreserved_capacity import NOTHING, ReservedAmounts


@dataclass(frozen=True)
class DefragmentGain:
    """Free before and after: whole cards, nodes of whole cards only, and blocks as asked for.

    What a reservation holds is not free.
    """

    cards: tuple[int, int]
    nodes: tuple[int, int]
    blocks: tuple[int, int]


@dataclass(frozen=True)
class DefragmentPlan:
    """Moves in the order in which they can be made, their gain and their cost."""

    generation: int
    moves: tuple[Move, ...]
    gain: DefragmentGain
    lost_seconds: int
    lost_gpu_seconds: int
    #: What chose them: `greedy`, `cp-sat` (within its time) or `cp-sat, proven best`.
    by: str
    reserved: ReservedAmounts = NOTHING

    @property
    def rank(self) -> tuple[int, int, int]:
        """Best first: more blocks, less lost work, fewer moves."""
        return -self.gain.blocks[1], self.lost_seconds, len(self.moves)


#: Takes what could be cleared and how many blocks are wanted. Returns nodes to clear and its name,
#: or None without an answer.
Solver = Callable[[MoveWorkspace, Sequence[NodeClearing], int | None], tuple[list[int], str] | None]


def plan_defragmentation(
    snapshot: Snapshot,
    now_ns: int,
    *,
    block: int | None = None,
    wanted: int | None = None,
    limits: RebalancingLimits | None = None,
    solver: Solver | None = None,
) -> DefragmentPlan:
    """Plan moves that free blocks of whole cards on one node each.

    Args:
        snapshot: the pool.
        now_ns: its instant.
        block: whole cards of a block; None: all cards of a node.
        wanted: at most so many more blocks; None: as many as possible.
        limits: how far the plan may go.
        solver: proposes nodes; the better of its plan and the greedy one is returned.
    """
    limits = limits or RebalancingLimits()
    plans = [_plan_greedily(MoveWorkspace(snapshot, now_ns, block), wanted, limits)]
    chosen = _ask_solver(solver, MoveWorkspace(snapshot, now_ns, block), wanted)
    if chosen is not None:
        plans.append(_plan_nodes(MoveWorkspace(snapshot, now_ns, block), *chosen, limits))
    return min(plans, key=lambda plan: plan.rank)


def _ask_solver(
    solver: Solver | None, mover: MoveWorkspace, wanted: int | None
) -> tuple[list[int], str] | None:
    return None if solver is None else solver(mover, list_clearings(mover), wanted)


def list_clearings(mover: MoveWorkspace) -> list[NodeClearing]:
    """Return every node's cheapest way to one more block, cheapest first."""
    found = (mover.find_clearing(node) for node in range(len(mover.snapshot.cards.nodes)))
    return sorted((one for one in found if one is not None), key=lambda one: one.rank)


def _plan_greedily(
    mover: MoveWorkspace, wanted: int | None, limits: RebalancingLimits
) -> DefragmentPlan:
    """Clear the cheapest node again and again.

    A clearing is priced anew before it is used, because moves since then changed its price.
    """
    work = _ClearingRun(mover, limits)
    heap = [(one.rank, one) for one in list_clearings(mover)]
    while heap and (wanted is None or work.gained < wanted):
        _, stood = heapq.heappop(heap)
        now = mover.find_clearing(stood.node)
        if now is not None and now.rank > stood.rank:
            heapq.heappush(heap, (now.rank, now))
        elif (
            now is not None
            and work.clear_node(now)
            and (more := mover.find_clearing(now.node)) is not None
        ):
            heapq.heappush(heap, (more.rank, more))
    return work.make_plan("greedy")


def _plan_nodes(
    mover: MoveWorkspace, nodes: Sequence[int], by: str, limits: RebalancingLimits
) -> DefragmentPlan:
    work = _ClearingRun(mover, limits)
    mover.cleared[nodes] = True  # nothing is set down on a node that is about to be cleared
    for node in nodes:
        clearing = mover.find_clearing(node)
        if clearing is not None:
            work.clear_node(clearing)
    return work.make_plan(by)


class _ClearingRun:
    """Clearings done so far, within the limits."""

    def __init__(self, mover: MoveWorkspace, limits: RebalancingLimits) -> None:
        self.mover = mover
        self.gained = 0
        self._spent = MoveTally(limits)
        self._before = _count_free(mover)

    def clear_node(self, clearing: NodeClearing) -> bool:
        tenants = [self.mover.jobs[place].tenant for place in clearing.jobs]
        if not self._spent.is_allowed(tenants, clearing.lost_seconds, clearing.lost_gpu_seconds):
            return False
        moves = self.mover.clear_node(clearing)
        if moves is None:
            return False
        self._spent.add_moves(moves)
        self.gained += 1
        return True

    def make_plan(self, by: str) -> DefragmentPlan:
        gain = DefragmentGain(*zip(self._before, _count_free(self.mover), strict=True))
        spent = self._spent
        generation = self.mover.snapshot.generation
        reserved = self.mover.reserved
        lost = spent.lost_seconds, spent.lost_gpu_seconds
        return DefragmentPlan(generation, tuple(spent.moves), gain, *lost, by, reserved)


def _count_free(mover: MoveWorkspace) -> tuple[int, int, int]:
    whole = mover.count_whole_cards()
    sizes = mover.free.count_cards_by_node(mover.free.milli >= 0)
    nodes = int(((whole == sizes) & (sizes > 0)).sum())
    return int(whole.sum()), nodes, mover.count_blocks()
