"""Moves that a plan found are made: checked again, one after the other, on the pool as it is by then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupool.allocations.mirror import Mirror
from gpupool.allocations.moving import move
from gpupool.allocations.placing import Placer
from gpupool.base.errors import Conflict, NotFound, WrongState
from gpupool.model.allocation import Seat
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.moves import free_beside_kept, is_movable
from gpupool.scheduling.snapshot import Running, Snapshot
from gpupool.store.database import Store
from gpupool.wire.defrag import MoveIn, MovesIn, MovesOut

AGAIN = "gpupool defrag  or  gpupool rebalance  plans anew"


def apply(store: Store, mirror: Mirror, placer: Placer, asked: MovesIn) -> MovesOut:
    """Make these moves, all or none: seats are kept for every job before any of them is told to leave.

    Raises NotFound, WrongState and Conflict where the pool is not any more what the plan was made for.
    """
    with placer.standing_still() as snapshot:
        seats = _checked(snapshot, asked.moves)
        with store.write() as write:
            moving = move(write, seats)
            write.note(lambda: mirror.note_moving(moving))
    return MovesOut(moving=list(moving), ended=[job for job in seats if job not in moving])


def _checked(snapshot: Snapshot, moves: Sequence[MoveIn]) -> dict[str, tuple[Seat, ...]]:
    """Every job's new seats, proven one after the other on what is free now."""
    running, free = {job.job: job for job in snapshot.running}, free_beside_kept(snapshot)
    return {one.job: _seated(free, _movable(running, one.job), one) for one in moves}


def _movable(running: dict[str, Running], name: str) -> Running:
    job = running.get(name)
    if job is None:
        raise NotFound(f"no job {name} holds cards now", hint=AGAIN)
    if not is_movable(job):
        raise WrongState(f"job {name} may not be moved: it is not preemptible, or leaves already", hint=AGAIN)
    return job


def _seated(free: Free, job: Running, asked: MoveIn) -> tuple[Seat, ...]:
    at = {uuid: row for row, uuid in enumerate(free.cards.uuids)}
    unknown = [uuid for uuid in asked.cards if uuid not in at]
    if unknown:
        raise NotFound(f"no card {unknown[0]} in this pool", hint=AGAIN)
    rows = np.array([at[uuid] for uuid in asked.cards], dtype=np.int64)
    fit, nodes = Fit(job.shape, free), set(free.cards.node[rows].tolist())
    alone = len(nodes) == 1 and len(set(asked.cards)) == len(rows) == job.shape.count
    if not alone or (fit.why[rows] != FITS).any():
        raise Conflict(f"job {job.job} does not fit on those cards any more", hint=AGAIN)
    free.take(nodes.pop(), rows, job.shape.held_milli, fit.need[rows], job.shape.cpu_milli, job.shape.host_bytes)
    milli = job.shape.held_milli
    return tuple(Seat(uuid, milli, int(fit.need[row])) for uuid, row in zip(asked.cards, rows, strict=True))
