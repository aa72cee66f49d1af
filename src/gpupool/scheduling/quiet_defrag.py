"""Defragmentation by itself: which moves a pool makes at a quiet time, within what it may spend in an hour.

Nothing here moves anything, and whether it is asked for at all the host knows. Docs: docs/concepts/defragmentation.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpupool.scheduling.defrag import DefragPlan, defrag
from gpupool.scheduling.move_limits import Limits
from gpupool.scheduling.snapshot import Running, Snapshot

HOUR_SECONDS = 3600
_DAY_HOURS = 24
_NS = 10**9


@dataclass(frozen=True)
class Budget:
    """What may be spent, and when."""

    moves: int = 10
    """An hour."""
    lost_gpu_seconds: int = HOUR_SECONDS
    """An hour: work to do again, times the compute that it held."""
    quiet_seconds: int = 600
    """So long nothing has started, and nothing waits."""
    hours: tuple[int, int] | None = None
    """Hours of the day (UTC) from the first until the second, which may be the next day's; None: all of it."""


@dataclass(frozen=True)
class Spent:
    """What was spent in the last hour."""

    moves: int = 0
    lost_gpu_seconds: int = 0


def plan_quietly(snapshot: Snapshot, now_ns: int, budget: Budget, spent: Spent) -> DefragPlan | None:
    """Moves that free whole nodes, within what is left; None where it is no quiet time, or nothing is to be gained.

    A job that started within the last hour stays where it is: so none is moved twice in an hour.
    """
    moves = budget.moves - spent.moves
    lost = budget.lost_gpu_seconds - spent.lost_gpu_seconds
    if moves <= 0 or lost < 0 or not is_quiet(snapshot, now_ns, budget):
        return None
    settled = tuple(_fixed(job, now_ns) for job in snapshot.running)
    limits = Limits(moves=moves, lost_gpu_seconds=lost)
    plan = defrag(replace(snapshot, running=settled), now_ns, limits=limits)
    return plan if plan.moves else None


def is_quiet(snapshot: Snapshot, now_ns: int, budget: Budget) -> bool:
    """Whether nothing waits, leaves or is being moved, nothing has started for a while, and the hour is a right one."""
    if snapshot.waiting or snapshot.kept or snapshot.owed or not _in_hours(now_ns, budget.hours):
        return False
    started = max((job.started_ns for job in snapshot.running), default=0)
    leaving = any(job.leaving_for for job in snapshot.running)
    return not leaving and now_ns - started >= budget.quiet_seconds * _NS


def _in_hours(now_ns: int, hours: tuple[int, int] | None) -> bool:
    if hours is None:
        return True
    hour = now_ns // (HOUR_SECONDS * _NS) % _DAY_HOURS
    begin, end = hours
    return begin <= hour < end if begin < end else hour >= begin or hour < end


def _fixed(job: Running, now_ns: int) -> Running:
    """The job, not to be moved if it has started within the last hour."""
    return replace(job, preemptible=False) if now_ns - job.started_ns < HOUR_SECONDS * _NS else job
