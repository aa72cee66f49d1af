"""Jobs that move: told to wait again, with the seats kept that they will sit on. Reserve first, then move.

The seats of a move are part of the job's row, written with the request to leave in one transaction; they are kept until
the job sits on them or has ended, whatever dies meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import sqlalchemy as sa

from gpupool.allocations.cards import name_cards
from gpupool.allocations.notes import CardNote
from gpupool.allocations.tables import IS_LIVE, jobs
from gpupool.allocations.together import PREEMPTION_GRACE_SECONDS, stop_working, told
from gpupool.model.allocation import Seat
from gpupool.model.job import JobState
from gpupool.store.database import Write

_MAY_MOVE = sa.select(jobs.c.id, jobs.c.public_id).where(
    jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True)),
    jobs.c.state.in_((JobState.STARTING, JobState.RUNNING)),
    jobs.c.stop_requested.is_(None),
    jobs.c.gang_id.is_(None),
)


def read_moving(connection: sa.Connection) -> dict[str, tuple[Seat, ...]]:
    """By job that moves, the seats that are kept for it."""
    query = sa.select(jobs.c.public_id, jobs.c.moving_to).where(IS_LIVE, jobs.c.moving_to.is_not(None))
    return {row.public_id: tuple(Seat(*seat) for seat in row.moving_to or ()) for row in connection.execute(query)}


@dataclass(frozen=True)
class To:
    """Seats that a job is moved to; `generations` are those of their cards' rows as they were read."""

    seats: tuple[Seat, ...]
    generations: tuple[int, ...]


def move(write: Write, moves: Mapping[str, To]) -> tuple[dict[str, tuple[Seat, ...]], tuple[CardNote, ...]]:
    """Ask these jobs to save their work and go to those seats; those of them that still can, and their cards then.

    All or nothing, as for a grant: raises StaleGeneration where a card is not the one that was read. Idempotent.
    """
    ids = {row.public_id: row.id for row in write.execute(_MAY_MOVE, {"jobs": list(moves)})}
    notes = name_cards(write, dict(chain.from_iterable(_read(moves[job]) for job in ids)))
    for job, key in ids.items():
        kept = [[seat.device, seat.gpu_milli, seat.memory_bytes] for seat in moves[job].seats]
        write.execute(jobs.update().where(jobs.c.id == key).values(moving_to=kept, leaving_for=job))
    asked = stop_working(write, list(ids.values()), "moved", PREEMPTION_GRACE_SECONDS)
    for job in asked:
        told("job.moving", write, [job], {"cards": [seat.device for seat in moves[job].seats]})
    return {job: moves[job].seats for job in asked}, notes


def _read(to: To) -> Iterator[tuple[str, int]]:
    return zip((seat.device for seat in to.seats), to.generations, strict=True)
