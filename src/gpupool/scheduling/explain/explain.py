"""The explanation of a waiting claim: why it waits and what would help.

The same cycle that places claims makes the answer, on the pool as that cycle leaves it, so the
answer cannot disagree with what happens. It knows how full cards are and not which tenant holds
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Rejection, RejectionReason, Shape
from gpupool.scheduling.admission.nearest_shape import find_nearest_shapes
from gpupool.scheduling.engine.cycle import (
    cycle_with_state,
)
from gpupool.scheduling.engine.cycle_state import (
    CycleState,
)
from gpupool.scheduling.explain.held_capacity import find_ways_beside_holds
from gpupool.scheduling.explain.reachability import Reachability, find_obstacle
from gpupool.scheduling.explain.suggestions import list_suggestions
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules
from gpupool.scheduling.quota.queue_order import Rank, rank
from gpupool.scheduling.reasons import help_messages
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.plan import Plan, PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.start_records import StartForecasts
from gpupool.scheduling.workspace.planning_state import PlanningState


@dataclass(frozen=True)
class Explanation:
    """The answer: one sentence, the counts behind it, and suggestions.

    `dominant` is None when the claim would be placed now. `ahead` counts the jobs of classes whose
    turn comes earlier.
    """

    sentence: str
    dominant: RejectionReason | None
    cards: Mapping[RejectionReason, int] = field(default_factory=dict)
    nodes: Mapping[RejectionReason, int] = field(default_factory=dict)
    fits_ever: bool = True
    nearest: Shape | None = None
    helps: tuple[str, ...] = ()
    #: The promised start, or an estimate if no other claim comes first; None where it is unknown.
    start: PlannedStart | None = None
    #: Of 100 such estimates so many came true; None for a promise, and where too little is known.
    chance_pct: int | None = None
    #: Waiting jobs of its tenant for which cards are kept: without them it would start now.
    kept_for: tuple[str, ...] = ()
    ahead: int = 0
    waited_seconds: int = 0


def explain_claim(
    snapshot: Snapshot,
    waiting: WaitingClass,
    now_ns: int,
    board: PlanningState | None = None,
    rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
    *,
    job: str = "",
    book: StartForecasts | None = None,
) -> Explanation:
    """Explain why a class waits; one that is not in the snapshot is judged as if it had just
    joined.

    Args:
        snapshot: the pool and its queue.
        waiting: the class; only its key and age are read where it is in the snapshot.
        now_ns: the instant of the snapshot.
        board: the planning state that is kept between cycles.
        rules: which jobs may be evicted.
        job: the job of the class that asks; its first one without a name.
        book: knows how often estimates came true.
    """
    joined = next((known for known in snapshot.waiting if known.key == waiting.key), None)
    asked = joined or waiting
    if joined is None:
        snapshot = replace(snapshot, waiting=(*snapshot.waiting, waiting))
    with cycle_with_state(snapshot, now_ns, board=board, rules=rules) as (plan, after):
        said = plan.rejections.get(asked.key)
        answer = (
            _explain_placed(plan, asked)
            if said is None
            else _explain_waiting(said, asked, plan, after, job, book)
        )
        # Estimates were laid on the quotas above; the order of the queue is that of the snapshot.
        after.transaction.quotas.restart()
        after.floors = after.make_floors()
        ahead = _count_ahead(snapshot, asked, after)
    waited = max(0, now_ns - waiting.oldest_ns) // NANOS_PER_SECOND
    return replace(answer, ahead=ahead, waited_seconds=waited)


def _explain_placed(plan: Plan, waiting: WaitingClass) -> Explanation:
    whys = [placement.why for placement in plan.placements if placement.job in waiting.job_ids]
    return Explanation(help_messages.describe_placed_now(whys[0]), None, nearest=waiting.shape)


def _explain_waiting(
    said: Rejection,
    waiting: WaitingClass,
    plan: Plan,
    after: CycleState,
    job: str,
    book: StartForecasts | None,
) -> Explanation:
    # Before the estimate, which leaves what it looks at on the timeline as held.
    beside = find_ways_beside_holds(said, waiting, after)
    start = plan.starts.get(waiting.key) or after.start_promises.estimate_start(waiting)
    reached = Reachability()
    if start is None and said.dominant is not RejectionReason.BEHIND:
        reached = find_obstacle(after.snapshot, waiting, after.now_ns)
    after.transaction.quotas.firm = not waiting.preemptible
    room = after.transaction.quotas.get_headroom(waiting.tenant)
    options = (
        None if waiting.gang else find_nearest_shapes(waiting.shape, after.transaction.free, room)
    )
    nearest = options.choose_best(waiting.shape) if options else None
    if said.dominant is RejectionReason.BEHIND:
        nearest = waiting.shape
    first = _is_first(waiting, start, job)
    chance = (
        book.get_chance_pct(waiting.key, start, after.now_ns)
        if book and start and start.claim
        else None
    )
    found = list_suggestions(
        said,
        waiting,
        after,
        options,
        start,
        reached,
        chance_pct=chance,
        first=first,
        beside=beside.sentences,
    )
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
        kept_for=beside.kept_for,
    )


def _is_first(waiting: WaitingClass, start: PlannedStart | None, job: str) -> bool:
    """Whether the class's start is that of the job: other jobs of its class wait behind that claim."""
    if not job or waiting.gang is not None or not waiting.job_ids:
        return True
    return job == (start.claim if start and start.claim else waiting.job_ids[0])


def _count_ahead(snapshot: Snapshot, waiting: WaitingClass, before: CycleState) -> int:
    def turn(one: WaitingClass) -> Rank:
        named = replace(one, job_ids=one.job_ids or ("",))
        owed = before.get_turn_place(one)
        return rank(
            named,
            0,
            before.is_outranked(one),
            before.get_standing(one),
            owed,
            before.find_floor(one),
        )

    mine = turn(waiting)
    return sum(one.count for one in snapshot.waiting if one.key != waiting.key and turn(one) < mine)
