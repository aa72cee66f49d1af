"""Migrations in the ledger: a job waits again, and its new seats are held before it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import CardUpdate
from gpupool.allocations.ledger.cards import bump_card_generations
from gpupool.allocations.ledger.job_stops import stop_working_jobs, write_job_events
from gpupool.allocations.ledger.stop_reasons import PREEMPTION_GRACE_SECONDS
from gpupool.allocations.store.tables import IS_LIVE, jobs
from gpupool.model.allocation import Seat
from gpupool.model.job import JobState
from gpupool.store.database import WriteTransaction

# A gang moves only as a whole, which no plan of moves does. A job that leaves already frees its
# seats without a move.
_MAY_MOVE = sa.select(jobs.c.id, jobs.c.public_id).where(
    jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True)),
    jobs.c.state.in_((JobState.STARTING, JobState.RUNNING)),
    jobs.c.stop_requested.is_(None),
    jobs.c.gang_id.is_(None),
)


def read_migrations(connection: sa.Connection) -> dict[str, tuple[Seat, ...]]:
    """Read the seats that are held for each job that migrates."""
    query = sa.select(jobs.c.public_id, jobs.c.moving_to).where(
        IS_LIVE, jobs.c.moving_to.is_not(None)
    )
    migrations = dict[str, tuple[Seat, ...]]()
    for row in connection.execute(query):
        migrations[row.public_id] = tuple(Seat(*seat) for seat in row.moving_to or ())
    return migrations


@dataclass(frozen=True)
class MigrationTarget:
    """The seats that a job moves to, with the generations of their cards as read."""

    seats: tuple[Seat, ...]
    generations: tuple[int, ...]


def start_migrations(
    write: WriteTransaction, moves: Mapping[str, MigrationTarget]
) -> tuple[dict[str, tuple[Seat, ...]], tuple[CardUpdate, ...]]:
    """Request that jobs save their work and move to these seats, all or none.

    Args:
        write: The transaction; the caller commits it.
        moves: The new seats of each job.

    Returns:
        The seats of the jobs that can still move, and their cards as they are now.

    Raises:
        StaleGeneration: A card has changed since the plan; nothing is written.
    """
    ids = {row.public_id: row.id for row in write.execute(_MAY_MOVE, {"jobs": list(moves)})}
    read = dict[str, int]()
    for job in ids:
        target = moves[job]
        for seat, generation in zip(target.seats, target.generations, strict=True):
            read[seat.device] = generation
    # Nothing is allocated on the new cards yet; their generations keep other plans from them.
    notes = bump_card_generations(write, read)
    for job, key in ids.items():
        # Stored with the job, so that a restart holds the seats again.
        kept = [[seat.device, seat.gpu_milli, seat.memory_bytes] for seat in moves[job].seats]
        write.execute(jobs.update().where(jobs.c.id == key).values(moving_to=kept, leaving_for=job))
    asked = stop_working_jobs(write, list(ids.values()), "moved", PREEMPTION_GRACE_SECONDS)
    for job in asked:
        cards = [seat.device for seat in moves[job].seats]
        write_job_events("job.moving", write, [job], {"cards": cards})
    return {job: moves[job].seats for job in asked}, notes
