"""A submission on its way into the ledger and the queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.base.errors import BudgetSpent
from gpupool.scheduling import Plan, WaitingClass
from gpupool.store.database import WriteTransaction


@dataclass(frozen=True)
class Arrival:
    """A submission: how it waits, what writes it, and what writes its answer.

    `insert` runs first in the transaction, `tell` last, with the sentence why the job waits.
    """

    waiting: WaitingClass
    queued: Sequence[QueueEntry]
    insert: Callable[[WriteTransaction], None]
    tell: Callable[[WriteTransaction, str], None]


def count_placed_jobs(arrival: Arrival, plan: Plan) -> int:
    """Count the jobs of a submission that a plan places."""
    mine = set(arrival.waiting.job_ids)
    return sum(placement.job in mine for placement in plan.placements)


def is_placed_whole(arrival: Arrival, placed: Collection[str]) -> bool:
    """Whether these jobs are all of a submission."""
    return set(arrival.waiting.job_ids) <= set(placed)


def refuse_hold(sentence: str, *, wait: bool) -> None:
    """Raise BudgetSpent for a job that may not wait until its budget has room."""
    if not wait:
        raise BudgetSpent(
            sentence, hint="leave out --no-wait to wait; an admin can raise it: gpupool budget set"
        )
