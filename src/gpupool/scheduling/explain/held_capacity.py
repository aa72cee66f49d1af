"""Ways to start beside capacity that is held for others: a shorter run, or without the other claim.

Each way is tried with the holds of the plan. The answer names jobs by their ids and only those of
the asking tenant; the caller names those that its user may see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.engine.cycle_state import (
    CycleState,
)
from gpupool.scheduling.reasons import help_messages
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.timeline.timeline import Hold

#: Seconds between the answer and the submission that follows it.
MARGIN_SECONDS = 30

#: Limits from an hour on are whole quarters of an hour, shorter ones whole minutes.
_HOUR = 3600
_QUARTER = 900
_MINUTE = 60

#: So many instants from which something is held are tried as ends of the run.
_TRIED = 16


@dataclass(frozen=True)
class WaysBesideHolds:
    """What lets a claim start beside holds, as sentences, and the own jobs that it waits behind."""

    sentences: tuple[str, ...] = ()
    kept_for: tuple[str, ...] = ()


def find_ways_beside_holds(
    said: Rejection, waiting: WaitingClass, after: CycleState
) -> WaysBesideHolds:
    """Find what lets a class start that only holds or promised quotas keep waiting."""
    if said.dominant not in (RejectionReason.RESERVED, RejectionReason.QUOTA):
        return WaysBesideHolds()
    sentences = list[str]()
    seconds = round_limit(_find_longest_run(waiting, after))
    if seconds:
        sentences.append(help_messages.suggest_limit(seconds))
    hold = after.start_promises.find_met_hold(waiting)
    if hold is None or said.dominant is RejectionReason.QUOTA:
        return WaysBesideHolds(tuple(sentences))
    if hold.collects and (count := _count_unlimited_jobs(hold, after)):
        sentences.append(help_messages.describe_unlimited_jobs(count))
    return WaysBesideHolds(tuple(sentences), _list_own_heads(hold, waiting, after))


def round_limit(seconds: int) -> int:
    """Round a limit down to what people type; 0 where less than a minute is left."""
    left = max(0, seconds - MARGIN_SECONDS)
    return left - left % (_QUARTER if left >= _HOUR else _MINUTE)


def _find_longest_run(waiting: WaitingClass, after: CycleState) -> int:
    """Find the longest run in seconds, up to the start of a hold, with which it starts now."""
    promises = after.start_promises
    own = promises.own_holds.get(waiting.key)
    longest = 0
    for at_ns in promises.list_hold_starts()[:_TRIED]:
        seconds = (at_ns - after.now_ns) // NANOS_PER_SECOND
        limited = replace(waiting, seconds=seconds, guessed=False)
        # A longer run meets more holds, never fewer.
        if not promises.can_start_now(limited, (own,) if own else ()):
            break
        longest = seconds
    return longest


def _count_unlimited_jobs(hold: Hold, after: CycleState) -> int:
    rows = set(hold.taken.rows.tolist())
    return sum(
        1 for job in after.snapshot.running if job.ends_ns is None and rows.intersection(job.rows)
    )


def _list_own_heads(hold: Hold, waiting: WaitingClass, after: CycleState) -> tuple[str, ...]:
    """List the jobs of the class that the hold is for; none of another tenant."""
    promises = after.start_promises
    key = next((key for key, its in promises.own_holds.items() if its is hold), None)
    if key is None or key.tenant != waiting.tenant:
        return ()
    own = promises.own_holds.get(waiting.key)
    without = (hold,) if own is None else (hold, own)
    if not promises.can_start_now(waiting, without):
        return ()
    return next(one.job_ids for one in after.snapshot.waiting if one.key == key)
