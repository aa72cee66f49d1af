"""Why a claim waits and what would help, for whoever asks.

The answer is made by the same run that places claims, on the pool as that run leaves it, so it cannot
disagree with what happens. Who holds the cards is not known here, only how full they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.scheduling import wording_help
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import Run, planned
from gpupool.scheduling.fairness import Rank, rank
from gpupool.scheduling.foretold import Foretold
from gpupool.scheduling.helps import helps
from gpupool.scheduling.nearest import near
from gpupool.scheduling.reach import Reach, reach
from gpupool.scheduling.snapshot import Plan, Snapshot, Start, Waiting
from gpupool.scheduling.victims import GENTLE, PreemptionRules


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
    start: Start | None = None
    """When it is promised a start, or could have one if nothing else came first; None where nobody can tell."""
    chance_pct: int | None = None
    """Of 100 such estimates so many came true; None of a promise, and where too little is known."""
    ahead: int = 0
    waited_seconds: int = 0


def explain(
    snapshot: Snapshot,
    waiting: Waiting,
    now_ns: int,
    board: Board | None = None,
    rules: PreemptionRules = GENTLE,
    *,
    job: str = "",
    book: Foretold | None = None,
) -> Explanation:
    """Why the class waits; one that is not in the snapshot is judged as if it had just joined its queue.

    Of a class that is in the snapshot only the key of `waiting` and its age are read. `job` is the one of the class
    that asks, its first without a name; `book` knows how often estimates came true.
    """
    joined = next((known for known in snapshot.waiting if known.key == waiting.key), None)
    asked = joined or waiting
    if joined is None:
        snapshot = replace(snapshot, waiting=(*snapshot.waiting, waiting))
    with planned(snapshot, now_ns, board=board, rules=rules) as (plan, after):
        said = plan.rejections.get(asked.key)
        answer = _placed(plan, asked) if said is None else _waits(said, asked, plan, after, job, book)
        after.work.quotas.restart()
        after.floors = after.begin_floors()
        ahead = _ahead(snapshot, asked, after)
    waited = max(0, now_ns - waiting.oldest_ns) // 10**9
    return replace(answer, ahead=ahead, waited_seconds=waited)


def _placed(plan: Plan, waiting: Waiting) -> Explanation:
    whys = [placement.why for placement in plan.placements if placement.job in waiting.heads]
    return Explanation(wording_help.placed_now(whys[0]), None, nearest=waiting.shape)


def _waits(said: Rejection, waiting: Waiting, plan: Plan, after: Run, job: str, book: Foretold | None) -> Explanation:
    start = plan.starts.get(waiting.key) or after.ahead.estimate(waiting)
    reached = Reach()
    if start is None and said.dominant is not Reason.BEHIND:
        reached = reach(after.snapshot, waiting, after.now_ns)
    after.work.quotas.firm = not waiting.preemptible
    room = after.work.quotas.room(waiting.tenant)
    options = None if waiting.gang else near(waiting.shape, after.work.free, room)
    nearest = options.best(waiting.shape) if options else None
    if said.dominant is Reason.BEHIND:
        nearest = waiting.shape
    first = _is_first(waiting, start, job)
    chance = book.chance_pct(waiting.key, start, after.now_ns) if book and start and start.claim else None
    found = helps(said, waiting, after, options, start, reached, chance_pct=chance, first=first)
    return Explanation(
        reached.sentence or said.sentence,
        said.dominant,
        said.cards,
        said.nodes,
        said.fits_ever,
        nearest,
        found,
        start if first else None,
        chance if first else None,
    )


def _is_first(waiting: Waiting, start: Start | None, job: str) -> bool:
    """Whether the class's start is that of the job: other jobs of its class wait behind that claim."""
    if not job or waiting.gang is not None or not waiting.heads:
        return True
    return job == (start.claim if start and start.claim else waiting.heads[0])


def _ahead(snapshot: Snapshot, waiting: Waiting, before: Run) -> int:
    def turn(one: Waiting) -> Rank:
        named, owed = replace(one, heads=one.heads or ("",)), before.place(one)
        return rank(named, 0, before.outranked(one), before.standing(one), owed, before.floor(one))

    mine = turn(waiting)
    return sum(one.count for one in snapshot.waiting if one.key != waiting.key and turn(one) < mine)
