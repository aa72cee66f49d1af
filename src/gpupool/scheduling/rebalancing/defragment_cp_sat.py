"""Choice of nodes to empty by CP-SAT (OR-Tools, the extra `opt`) within a time limit.

The model counts: nodes to clear against cards and compute that the others can take. It does not
know on which card a share goes, so its answer is a proposal that `plan_defragmentation` proves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from operator import mul
from typing import Any

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.rebalancing.defragment import Solver
from gpupool.scheduling.rebalancing.workspace import MoveWorkspace, NodeClearing
from gpupool.scheduling.snapshot.columns import Ints

#: Threads of the solver.
_WORKERS = 2


def make_cp_sat_solver(seconds: float, *, seed: int = 0) -> Solver | None:
    """Make a solver that takes at most that long; None where OR-Tools is not installed."""
    if find_spec("ortools") is None:
        return None
    return lambda mover, clearings, wanted: _solve_model(mover, clearings, wanted, seconds, seed)


def _solve_model(
    mover: MoveWorkspace,
    clearings: Sequence[NodeClearing],
    wanted: int | None,
    seconds: float,
    seed: int,
) -> tuple[list[int], str] | None:
    from ortools.sat.python import cp_model

    if not clearings:
        return None
    model = cp_model.CpModel()
    clear = [model.new_bool_var(f"clear{one.node}") for one in clearings]
    _add_capacity_constraints(model, mover, clearings, clear)
    if wanted is not None:
        model.add(sum(clear) <= wanted)
    prices = list(map(_compute_price, clearings))
    # Lexicographic in one sum: one more node is worth more than all prices together.
    most = sum(prices) + 1
    values = [most - price for price in prices]
    model.maximize(sum(map(mul, clear, values)))
    search = cp_model.CpSolver()
    search.parameters.max_time_in_seconds = seconds
    search.parameters.num_workers = _WORKERS
    search.parameters.random_seed = seed
    status = search.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    nodes = list[int]()
    for one, flag in zip(clearings, clear, strict=True):
        if search.boolean_value(flag):
            nodes.append(one.node)
    return nodes, "cp-sat, proven best" if status == cp_model.OPTIMAL else "cp-sat"


def _compute_price(clearing: NodeClearing) -> int:
    return clearing.lost_seconds + len(clearing.jobs)


def _add_capacity_constraints(
    model: Any, mover: MoveWorkspace, clearings: Sequence[NodeClearing], clear: Sequence[Any]
) -> None:
    """Whole cards move to whole cards that form no block, shares to used cards; none to a cleared
    node.
    """
    whole_room, share_room = _count_room(mover)
    flag_of = {one.node: flag for one, flag in zip(clearings, clear, strict=True)}
    for room, need in ((whole_room, _count_whole_cards), (share_room, _sum_share_milli)):
        taken = sum(need(mover, one) * flag for one, flag in zip(clearings, clear, strict=True))
        given = list[Any]()
        # A node that is cleared gives no room.
        for node in np.flatnonzero(room).tolist():
            given.append(int(room[node]) * (1 - flag_of[node] if node in flag_of else 1))
        model.add(taken <= sum(given))


def _count_room(mover: MoveWorkspace) -> tuple[Ints, Ints]:
    """Per node, whole cards that form no block, and compute free on used cards."""
    whole = mover.count_whole_cards()
    blocks = np.array([mover.get_block_size(node) for node in range(len(whole))], dtype=np.int64)
    grid = mover.free.get_compute_grid(np.arange(len(whole)))
    on_used = np.where((grid > 0) & (grid < WHOLE), grid, 0).sum(axis=1)
    return whole % np.maximum(blocks, 1), on_used


def _count_whole_cards(mover: MoveWorkspace, clearing: NodeClearing) -> int:
    return _count_seats_by_size(mover, clearing)[WHOLE]


def _sum_share_milli(mover: MoveWorkspace, clearing: NodeClearing) -> int:
    seats = _count_seats_by_size(mover, clearing)
    del seats[WHOLE]
    return sum(milli * count for milli, count in seats.items())


def _count_seats_by_size(mover: MoveWorkspace, clearing: NodeClearing) -> Counter[int]:
    """How many seats of each size leave."""
    seats = Counter[int]()
    for place in clearing.jobs:
        seats.update(mover.jobs[place].milli)
    return seats
