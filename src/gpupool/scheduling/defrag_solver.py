"""Which nodes to empty, by CP-SAT (OR-Tools, the extra `opt`) within a time cap; None where it is not installed.

The model counts: nodes to clear against cards and compute that the others can take. It does not know which card a
share goes to, so its answer is a proposal that `defrag` proves move by move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.defrag import Solver
from gpupool.scheduling.moves import Clearing, Mover
from gpupool.scheduling.snapshot import Ints

_WORKERS = 2


def solver(seconds: float, *, seed: int = 0) -> Solver | None:
    """A solver that takes at most that long; None where OR-Tools is not installed."""
    if find_spec("ortools") is None:
        return None
    return lambda mover, clearings, wanted: _solve(mover, clearings, wanted, seconds, seed)


def _solve(
    mover: Mover, clearings: Sequence[Clearing], wanted: int | None, seconds: float, seed: int
) -> tuple[list[int], str] | None:
    from ortools.sat.python import cp_model

    if not clearings:
        return None
    model = cp_model.CpModel()
    clear = [model.new_bool_var(f"clear{one.node}") for one in clearings]
    _others_take_what_is_moved(model, mover, clearings, clear)
    if wanted is not None:
        model.add(sum(clear) <= wanted)
    most = sum(_price(one) for one in clearings) + 1
    model.maximize(sum(most * flag - _price(one) * flag for flag, one in zip(clear, clearings, strict=True)))
    search = cp_model.CpSolver()
    search.parameters.max_time_in_seconds = seconds
    search.parameters.num_workers = _WORKERS
    search.parameters.random_seed = seed
    status = search.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    nodes = [one.node for one, flag in zip(clearings, clear, strict=True) if search.boolean_value(flag)]
    return nodes, "cp-sat, proven best" if status == cp_model.OPTIMAL else "cp-sat"


def _price(clearing: Clearing) -> int:
    return clearing.lost_seconds + len(clearing.jobs)


def _others_take_what_is_moved(model: Any, mover: Mover, clearings: Sequence[Clearing], clear: Sequence[Any]) -> None:
    """Whole cards go to whole cards that form no block, shares to used cards; nothing to a cleared node."""
    whole_room, share_room = _room(mover)
    flag_of = {one.node: flag for one, flag in zip(clearings, clear, strict=True)}
    for room, need in ((whole_room, _whole_cards), (share_room, _share_milli)):
        taken = sum(need(mover, one) * flag for one, flag in zip(clearings, clear, strict=True))
        given = [
            int(room[node]) * (1 - flag_of[node] if node in flag_of else 1) for node in map(int, np.flatnonzero(room))
        ]
        model.add(taken <= sum(given))


def _room(mover: Mover) -> tuple[Ints, Ints]:
    """Per node, whole cards that form no block and compute free on used cards."""
    whole = mover.whole()
    blocks = np.array([mover.block(node) for node in range(len(whole))], dtype=np.int64)
    grid = mover.free.grid(np.arange(len(whole)))
    on_used = np.where((grid > 0) & (grid < WHOLE), grid, 0).sum(axis=1)
    return whole % np.maximum(blocks, 1), on_used


def _whole_cards(mover: Mover, clearing: Clearing) -> int:
    return _by_size(mover, clearing)[WHOLE]


def _share_milli(mover: Mover, clearing: Clearing) -> int:
    return sum(milli * count for milli, count in _by_size(mover, clearing).items() if milli < WHOLE)


def _by_size(mover: Mover, clearing: Clearing) -> Counter[int]:
    """How many seats of each size leave."""
    return Counter(milli for place in clearing.jobs for milli in mover.jobs[place].milli)
