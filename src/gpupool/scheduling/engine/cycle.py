"""One run of the scheduler: `plan = cycle(snapshot, now_ns)`.

Pure and deterministic: the same snapshot gives the same plan, whatever the order of its mappings.
It plans on a working copy that may live between cycles and is unchanged when the cycle returns. So
the work is what has changed since, then one node per placement; nothing is proportional to the
number of jobs.

A class that finds no room does not hold back those behind it. A class that its tenant's maximum
stops holds back no other tenant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupool.scheduling.engine.cycle_state import CycleState
from gpupool.scheduling.engine.promises import list_firm_starts, list_promised_claims
from gpupool.scheduling.preemption.beneficiaries import move_beneficiaries_first
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES, PreemptionRules
from gpupool.scheduling.snapshot.plan import Plan, PlanningEffort
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState


def cycle(
    snapshot: Snapshot,
    now_ns: int,
    *,
    limit: int = 64,
    board: PlanningState | None = None,
    rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
    said: bool = True,
) -> Plan:
    """Place claims and explain why the others wait.

    A gang counts as its members and is not cut: the last one placed may go over the limit. A plan
    that places something may leave more to place (its limit, or a class with more jobs than heads):
    apply it and call again until a plan places nothing. Rejections describe the pool as the plan
    leaves it; they carry no `nearest`, which `explain_claim` adds. A claim whose seats others must
    leave is placed once they have left.

    Args:
        snapshot: the pool and its queue.
        now_ns: the instant of the snapshot.
        limit: place at most so many claims.
        board: the planning state that is kept between cycles; without it the plan is the same.
        rules: which jobs may be evicted.
        said: find the rejections; without it they are empty.
    """
    with cycle_with_state(snapshot, now_ns, limit, board, rules, said=said, sleeps=True) as (
        plan,
        _,
    ):
        return plan


@contextmanager
def cycle_with_state(
    snapshot: Snapshot,
    now_ns: int,
    limit: int = 64,
    board: PlanningState | None = None,
    rules: PreemptionRules = DEFAULT_PREEMPTION_RULES,
    *,
    said: bool = True,
    sleeps: bool = False,
) -> Iterator[tuple[Plan, CycleState]]:
    """Yield the plan and the state of its cycle, on the working copy as the plan leaves it.

    The planning state is rolled back at the end.

    Args:
        snapshot: the pool and its queue.
        now_ns: the instant of the snapshot.
        limit: place at most so many claims.
        board: the planning state that is kept between cycles.
        rules: which jobs may be evicted.
        said: find the rejections.
        sleeps: pass over classes that cannot have room (`sleeping_classes`). The plan is the same,
            and the state knows less.
    """
    # Before `follow`: what it looks at to take in the snapshot is a part of this plan's effort.
    at_jobs = board.running_jobs.looked if board else 0
    board = PlanningState(snapshot) if board is None else board.follow(snapshot)
    board.restart(snapshot)
    # The snapshot's order is that of first evictions, which a new controller reads from its
    # ledgers. Jobs that leave for a claim that the host does not know of (any more) come behind,
    # once each.
    owed = tuple(dict.fromkeys((*snapshot.beneficiaries, *board.running_jobs.list_beneficiaries())))
    snapshot = move_beneficiaries_first(snapshot, owed)
    firm = list_firm_starts(snapshot)
    # With thousands of classes only those that may have a promise are searched for it.
    among = board.sleeping_classes.list_promised_classes(snapshot, firm) if firm else []
    promised = list_promised_claims(snapshot, [snapshot.waiting[i] for i in among])
    snapshot = move_beneficiaries_first(snapshot, promised, among)
    looked = board.free.examined_cards
    # Everything below is a trial on the state that lives on. The plan may never be written (another
    # writer was faster), so the state takes it in only when the next snapshot shows it.
    mark = board.mark()
    try:
        run = CycleState(snapshot, now_ns, board, rules, owed, promised, sleeps=sleeps)
        placed = run.place_all(limit)
        rejections = run.make_rejections(len(placed)) if said else {}
        effort = PlanningEffort(
            board.free.examined_cards - looked,
            len(snapshot.waiting),
            run.attempts,
            board.running_jobs.looked - at_jobs,
        )
        starts = {
            **run.start_promises.starts,
            **run.eviction_planner.starts,
            **run.start_promises.list_promises(),
        }
        evictions = tuple(run.eviction_planner.evictions)
        yield Plan(snapshot.generation, tuple(placed), rejections, effort, evictions, starts), run
    finally:
        board.rollback(mark)
