"""Why a claim waits and what would help, for whoever asks.

The answer is made by the same run that places claims, on the pool as that run leaves it, so it cannot
disagree with what happens. Who holds the cards is not known here, only how full they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.scheduling import wording
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import Run, planned
from gpupool.scheduling.fairness import Rank, rank
from gpupool.scheduling.feasible import CODE, FITS
from gpupool.scheduling.nearest import Near, near
from gpupool.scheduling.snapshot import Plan, Snapshot, Waiting


@dataclass(frozen=True)
class Explanation:
    """The answer: one sentence, the counts behind it, and what to do.

    `dominant` is None when the claim would be placed now. `ahead` counts the jobs of classes whose turn
    comes earlier.
    """

    sentence: str
    dominant: Reason | None
    cards: Mapping[Reason, int] = field(default_factory=dict)
    nodes: Mapping[Reason, int] = field(default_factory=dict)
    fits_ever: bool = True
    nearest: Shape | None = None
    helps: tuple[str, ...] = ()
    ahead: int = 0
    waited_seconds: int = 0


def explain(snapshot: Snapshot, waiting: Waiting, now_ns: int, board: Board | None = None) -> Explanation:
    """Why the class waits; one that is not in the snapshot is judged as if it had just joined its queue.

    Of a class that is in the snapshot only the key of `waiting` and its age are read.
    """
    joined = next((known for known in snapshot.waiting if known.key == waiting.key), None)
    asked = joined or waiting
    if joined is None:
        snapshot = replace(snapshot, waiting=(*snapshot.waiting, waiting))
    with planned(snapshot, now_ns, board=board) as (plan, after):
        said = plan.rejections.get(asked.key)
        answer = _placed(plan, asked) if said is None else _waits(said, asked, after)
        after.work.quotas.restart()
        ahead = _ahead(snapshot, asked, after)
    waited = max(0, now_ns - waiting.oldest_ns) // 10**9
    return replace(answer, ahead=ahead, waited_seconds=waited)


def _placed(plan: Plan, waiting: Waiting) -> Explanation:
    whys = [placement.why for placement in plan.placements if placement.job in waiting.heads]
    return Explanation(wording.placed_now(whys[0]), None, nearest=waiting.shape)


def _waits(said: Rejection, waiting: Waiting, after: Run) -> Explanation:
    options = near(waiting.shape, after.work.free, after.work.quotas.room(waiting.tenant))
    nearest = waiting.shape if said.dominant is Reason.BEHIND else options.best(waiting.shape)
    helps = () if said.dominant is Reason.BEHIND else _helps(said, waiting, after, options)
    return Explanation(said.sentence, said.dominant, said.cards, said.nodes, said.fits_ever, nearest, helps)


def _helps(said: Rejection, waiting: Waiting, after: Run, options: Near) -> tuple[str, ...]:
    fit = after.work.fit(waiting.shape)
    helps = [wording.fits_now(shape) for shape in options.all()]
    observed = int(np.count_nonzero(fit.fixed == CODE[Reason.NOT_ADOPTED]))
    if observed and said.dominant is not Reason.QUOTA:
        helps.append(wording.adopt(observed))
    if said.dominant is Reason.QUOTA:
        helps.append(wording.free_quota(waiting.tenant))
    if said.fits_ever and after.work.free.count_by_node(fit.fixed == FITS).max(initial=0) >= waiting.shape.count:
        helps.append(wording.WAIT)
    return tuple(helps) or ((said.hint,) if said.hint else ())


def _ahead(snapshot: Snapshot, waiting: Waiting, before: Run) -> int:
    def turn(one: Waiting) -> Rank:
        return rank(replace(one, heads=one.heads or ("",)), 0, before.borrows(one), before.standing(one))

    mine = turn(waiting)
    return sum(one.count for one in snapshot.waiting if one.key != waiting.key and turn(one) < mine)
