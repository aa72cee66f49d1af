"""Automatic defragmentation: the moves that a pool makes at a quiet time, within an hourly budget.

Nothing here moves anything; the host decides whether to ask. See docs/concepts/defragmentation.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.rebalancing.defragment import DefragmentPlan, plan_defragmentation
from gpupool.scheduling.rebalancing.move_limits import RebalancingLimits
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot

HOUR_SECONDS = 3600
_DAY_HOURS = 24


@dataclass(frozen=True)
class DefragmentBudget:
    """What may be spent, and when."""

    #: Moves in an hour.
    moves: int = 10
    #: In an hour: work to do again, in seconds times the cards that it held.
    lost_gpu_seconds: int = HOUR_SECONDS
    #: For so long nothing has started and nothing waits.
    quiet_seconds: int = 600
    #: Hours of the day (UTC) from the first until the second, perhaps of the next day; None: all of
    #: it.
    hours: tuple[int, int] | None = None


@dataclass(frozen=True)
class DefragmentSpending:
    """What was spent in the last hour."""

    moves: int = 0
    lost_gpu_seconds: int = 0


def plan_automatic_defragmentation(
    snapshot: Snapshot, now_ns: int, budget: DefragmentBudget, spent: DefragmentSpending
) -> DefragmentPlan | None:
    """Plan moves that free whole nodes within what is left of the budget.

    A job that started within the last hour stays where it is, so none is moved twice in an hour.

    Returns:
        None where the time is not quiet, or no move gains anything.
    """
    moves = budget.moves - spent.moves
    lost = budget.lost_gpu_seconds - spent.lost_gpu_seconds
    if moves <= 0 or lost < 0 or not is_quiet_time(snapshot, now_ns, budget):
        return None
    settled = tuple(_pin_recent_job(job, now_ns) for job in snapshot.running)
    limits = RebalancingLimits(moves=moves, lost_gpu_seconds=lost)
    plan = plan_defragmentation(replace(snapshot, running=settled), now_ns, limits=limits)
    return plan if plan.moves else None


def is_quiet_time(snapshot: Snapshot, now_ns: int, budget: DefragmentBudget) -> bool:
    """Whether nothing waits, leaves, moves or has just started, and the hour is an allowed one."""
    if (
        snapshot.waiting
        or snapshot.migration_holds
        or snapshot.beneficiaries
        or not _is_in_hours(now_ns, budget.hours)
    ):
        return False
    started = max((job.started_ns for job in snapshot.running), default=0)
    leaving = any(job.beneficiary for job in snapshot.running)
    return not leaving and now_ns - started >= budget.quiet_seconds * NANOS_PER_SECOND


def _is_in_hours(now_ns: int, hours: tuple[int, int] | None) -> bool:
    if hours is None:
        return True
    hour = now_ns // (HOUR_SECONDS * NANOS_PER_SECOND) % _DAY_HOURS
    begin, end = hours
    return begin <= hour < end if begin < end else hour >= begin or hour < end


def _pin_recent_job(job: RunningJob, now_ns: int) -> RunningJob:
    """The job, non-preemptible if it has started within the last hour."""
    return (
        replace(job, preemptible=False)
        if now_ns - job.started_ns < HOUR_SECONDS * NANOS_PER_SECOND
        else job
    )
