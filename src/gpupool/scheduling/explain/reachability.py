"""Reachability: whether a claim could start if nothing ran, by open cards, quotas and reservations.

Jobs end, so a claim that could start then waits for something that comes. A claim that could not
waits for a person: an admin guarantees less, lends more or adopts cards, or the user submits it
with another option. The same cycle that places claims decides, on the same snapshot without jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from gpupool.model.quota import UNLIMITED, ResourceAmount
from gpupool.scheduling.admission.gang import empty_cards
from gpupool.scheduling.engine.cycle import (
    cycle,
)
from gpupool.scheduling.engine.cycle_state import (
    CycleState,
)
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.reasons import reach_messages
from gpupool.scheduling.scoring.binpack import NAME as BINPACK
from gpupool.scheduling.snapshot.claims import ExpectedDemand, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.planning_state import PlanningState

#: The time limit in seconds that is tried where a claim has none, or a longer one.
SHORT_SECONDS = 3600

_NO_EVICTIONS = PreemptionRules(enabled=False)


class ObstacleCause(Enum):
    """What stops a claim in an empty pool."""

    QUOTA = "quota"
    RESERVED = "reserved"
    CARDS = "cards"


@dataclass(frozen=True)
class Reachability:
    """Whether a claim could start in an empty pool.

    `cause` is None where it could. `options` of the command line would let it start then.
    """

    cause: ObstacleCause | None = None
    sentence: str = ""
    options: tuple[str, ...] = ()

    @property
    def can_start(self) -> bool:
        """Whether the claim could start."""
        return self.cause is None


def find_obstacle(snapshot: Snapshot, waiting: WaitingClass, now_ns: int) -> Reachability:
    """Find what stops the class's next claim, or its whole gang, in an empty pool."""
    empty = remove_jobs(snapshot, waiting)
    if _can_start(empty, now_ns):
        return Reachability()
    cause = _find_cause(empty, now_ns)
    if cause is ObstacleCause.CARDS:
        return Reachability(cause)
    options: tuple[str, ...] = ()
    for words, other in _iterate_alternatives(empty.waiting[0]):
        if _can_start(_replace_waiting(empty, other), now_ns):
            options = words
            break
    if cause is ObstacleCause.RESERVED:
        return Reachability(cause, reach_messages.RESERVED, options)
    return Reachability(cause, _describe_quota(empty, now_ns), options)


def find_quota_obstacle(
    snapshot: Snapshot, waiting: WaitingClass, now_ns: int
) -> Reachability | None:
    """Find the quota that stops a claim whatever ends; None where no quota does."""
    if not (snapshot.cohorts or any(view.quota.limits for view in snapshot.tenants.values())):
        return None
    empty = remove_jobs(snapshot, waiting)
    if not _describe_quota(empty, now_ns):
        return None
    found = find_obstacle(snapshot, waiting, now_ns)
    return found if found.cause is ObstacleCause.QUOTA else None


def remove_jobs(snapshot: Snapshot, waiting: WaitingClass) -> Snapshot:
    """Return the pool without what runs, moves or was promised, and with no other claim in the
    queue.
    """
    heads = waiting.gang.members if waiting.gang is not None else (waiting.job_ids or ("it",))[:1]
    alone = replace(waiting, job_ids=heads, submitted_ns=(), count=len(heads))
    tenants = dict[str, TenantView]()
    for name, view in snapshot.tenants.items():
        tenants[name] = replace(view, held=ResourceAmount())
    return replace(
        snapshot,
        # The present status: a card that is drained or broken stays so when all jobs have ended.
        cards=replace(empty_cards(snapshot.cards), status=snapshot.cards.status),
        tenants=tenants,
        waiting=(alone,),
        running=(),
        migration_holds=(),
        beneficiaries=(),
        suspended=(),
        previous_starts={},
        policy=BINPACK,
        expected=ExpectedDemand(),
    )


def _describe_quota(empty: Snapshot, now_ns: int) -> str:
    """What is kept from the claim; empty where the reason for its waiting says it already."""
    (waiting,) = empty.waiting
    run = CycleState(empty, now_ns, PlanningState(empty), _NO_EVICTIONS)
    run.transaction.quotas.firm = not waiting.preemptible
    said = run.transaction.quotas.find_rejection(
        waiting.tenant, waiting.shape, run.compute_least(waiting)
    )
    if said is not None:
        return said.sentence
    return (
        ""
        if run.transaction.quotas.find_closed_cards(waiting.tenant) is None
        else reach_messages.WHOLE_NODES
    )


def _can_start(empty: Snapshot, now_ns: int) -> bool:
    return bool(cycle(empty, now_ns, limit=1, rules=_NO_EVICTIONS, said=False).placements)


def _replace_waiting(empty: Snapshot, waiting: WaitingClass) -> Snapshot:
    return replace(empty, waiting=(waiting,))


def _find_cause(empty: Snapshot, now_ns: int) -> ObstacleCause:
    views = dict[str, TenantView]()
    for name, view in empty.tenants.items():
        views[name] = replace(view, quota=UNLIMITED, cohort=None)
    unlimited = replace(empty, tenants=views, cohorts={})
    if _can_start(unlimited, now_ns):
        return ObstacleCause.QUOTA
    free_of_reservations = replace(empty, reservations=())
    if _can_start(free_of_reservations, now_ns) or _can_start(
        replace(unlimited, reservations=()), now_ns
    ):
        return ObstacleCause.RESERVED
    return ObstacleCause.CARDS


def _iterate_alternatives(waiting: WaitingClass) -> Iterator[tuple[tuple[str, ...], WaitingClass]]:
    """The same claim with other options, the smallest change first."""
    limited = waiting.seconds is not None and waiting.seconds <= SHORT_SECONDS
    short = () if limited else (("--max-time", replace(waiting, seconds=SHORT_SECONDS)),)
    firm = () if waiting.preemptible else (("--preemptible", replace(waiting, preemptible=True)),)
    for word, other in (*firm, *short):
        yield (word,), other
    for (one, other), (two, _) in zip(firm, short, strict=False):
        yield (one, two), replace(other, seconds=SHORT_SECONDS)
