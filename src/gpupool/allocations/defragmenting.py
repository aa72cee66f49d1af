"""Defragmentation of this pool: a plan on a frozen copy, and its moves, checked again on the pool as it is then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa

from gpupool.allocations.mirror import Mirror
from gpupool.allocations.moving import move
from gpupool.allocations.placing import Placer
from gpupool.allocations.tables import jobs
from gpupool.base.errors import Conflict, NotFound, WrongState
from gpupool.model.allocation import Seat
from gpupool.scheduling.defrag import DefragPlan, Limits, defrag
from gpupool.scheduling.defrag_solver import solver
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.moves import is_movable
from gpupool.scheduling.snapshot import Running, Snapshot
from gpupool.store.database import Store
from gpupool.wire.defrag import DefragIn, DefragOut, MoveIn, MoveOut, MovesIn, MovesOut

AGAIN = "gpupool defrag  plans anew"


def plan(store: Store, mirror: Mirror, asked: DefragIn) -> DefragOut:
    """What to move so that whole cards of one node come free together. Moves nothing."""
    snapshot = mirror.snapshot()
    limits = Limits(asked.max_moves, asked.max_lost_seconds, asked.max_moves_per_tenant)
    found = defrag(
        snapshot,
        store.clock.now_ns(),
        block=asked.cards,
        wanted=asked.blocks,
        limits=limits,
        solver=solver(asked.seconds) if asked.seconds else None,
    )
    return _told(store, snapshot, found)


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
    running, free = {job.job: job for job in snapshot.running}, Free(snapshot.cards)
    for kept in snapshot.kept:
        rows = np.array(kept.rows, dtype=np.int64)
        free.take(int(snapshot.cards.node[rows[0]]), rows, kept.shape.held_milli, np.array(kept.sizes))
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


def _told(store: Store, snapshot: Snapshot, found: DefragPlan) -> DefragOut:
    names = _names(store, [move.job for move in found.moves])
    uuids = snapshot.cards.uuids
    moves = [
        MoveOut(
            job=move.job,
            name=names.get(move.job, move.job),
            tenant=move.tenant,
            from_node=move.from_node,
            node=move.node,
            cards=[uuids[row] for row in move.rows],
            lost_seconds=move.lost_seconds,
        )
        for move in found.moves
    ]
    gain = found.gain
    return DefragOut(
        moves=moves,
        lost_seconds=found.lost_seconds,
        whole_cards=gain.cards,
        whole_nodes=gain.nodes,
        blocks=gain.blocks,
        by=found.by,
        movable=sum(is_movable(job) for job in snapshot.running),
    )


def _names(store: Store, public_ids: Sequence[str]) -> dict[str, str]:
    with store.read() as connection:
        query = sa.select(jobs.c.public_id, jobs.c.name).where(jobs.c.public_id.in_(public_ids))
        return {row.public_id: row.name for row in connection.execute(query)}
