"""Which idle jobs give way to a suspended job that wants to work again, on the cards that it had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpupool.scheduling.idle_suspension.fewest import drop_unneeded, find_prefix
from gpupool.scheduling.idle_suspension.hypothesis import empty_seats
from gpupool.scheduling.idle_suspension.kept_capacity import measure_kept, measure_kept_before
from gpupool.scheduling.idle_suspension.victims import CONSIDERED, IdleJob, sort_idle_jobs
from gpupool.scheduling.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class ReturningJob:
    """A suspended job; `cards` are the bytes of its seats by card, `milli` the compute of each."""

    job: str
    milli: int
    cards: Mapping[str, int]


def has_return_room(snapshot: Snapshot, job: ReturningJob) -> bool:
    """Whether all cards of the job have its room free, beside what jobs before it come back to.

    Other holds and quotas are not looked at, nor is the factor: the memory of running and of
    idle-suspended shares together stays the same.
    """
    cards = snapshot.cards
    rows = {uuid: row for row, uuid in enumerate(cards.uuids)}
    kept = measure_kept(cards, snapshot.suspended, snapshot.idle_rules)
    before = measure_kept_before(snapshot, job.job)
    free_milli = cards.free_milli + kept.milli - before.milli
    free_bytes = cards.free_bytes + kept.size - before.size
    for uuid, size in job.cards.items():
        row = rows.get(uuid)
        if row is None or free_milli[row] < job.milli or free_bytes[row] < size:
            return False
    return True


def find_return_victims(
    snapshot: Snapshot, job: ReturningJob, idle: Iterable[IdleJob]
) -> tuple[str, ...]:
    """Find the fewest idle jobs, first in order, whose seats make the job's room.

    The job comes back to the cards that it had, so only these are looked at.

    Returns:
        Nothing if there is room already, or if all these jobs together do not make it.
    """
    rows = {uuid: row for row, uuid in enumerate(snapshot.cards.uuids)}
    own = frozenset(rows[uuid] for uuid in job.cards if uuid in rows)
    near = {one.job for one in snapshot.running if not own.isdisjoint(one.rows)}
    order = [one.job for one in sort_idle_jobs(idle) if one.job in near][:CONSIDERED]

    def has_room(victims: Iterable[str]) -> bool:
        return has_return_room(empty_seats(snapshot, frozenset(victims)), job)

    chosen = find_prefix(order, has_room)
    return tuple(drop_unneeded(chosen, has_room)) if chosen else ()
