"""Moves that a plan found are made: checked again, one after the other, on the pool as it is by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpupool.allocations.mirror import Mirror
from gpupool.allocations.moving import To, move
from gpupool.allocations.placing import Placer
from gpupool.base.errors import BadInput, Conflict, NotFound, StaleGeneration, WrongState
from gpupool.base.units import format_share
from gpupool.model.allocation import Seat
from gpupool.scheduling import near
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.moves import free_beside_kept, is_movable, take
from gpupool.scheduling.snapshot import Ints, Running, Snapshot
from gpupool.scheduling.spare import Spare
from gpupool.store.database import Store, Write
from gpupool.wire.defrag import MoveIn, MovesIn, MovesOut

AGAIN = "gpupool defrag  or  gpupool rebalance  plans anew"


Note = Callable[[Write], None]
"""Writes something of its own in the transaction of the moves."""


def _nothing(_write: Write) -> None:
    """Moves that nobody else writes down."""


def apply(store: Store, mirror: Mirror, placer: Placer, asked: MovesIn, noted: Note = _nothing) -> MovesOut:
    """Make these moves, all or none: seats are kept for every job before any of them is told to leave.

    Raises NotFound, WrongState, Conflict and StaleGeneration where the pool is not any more what the plan was made for.
    """
    cards = {uuid for one in asked.moves for uuid in one.cards}
    with placer.standing_still(cards) as snapshot:
        wanted = _Seating(snapshot, store.clock.now_ns()).all(asked.moves)
        with store.write() as write:
            moving, notes = move(write, wanted)
            noted(write)
            write.note(lambda: mirror.note_cards(notes))
            write.note(lambda: mirror.note_moving(moving))
    return MovesOut(moving=list(moving), ended=[job for job in wanted if job not in moving])


class _Seating:
    """Every job's new seats, proven one after the other on what is free now and held for nobody else."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._running = {job.job: job for job in snapshot.running}
        self._free = free_beside_kept(snapshot)
        self._spare = Spare(snapshot, self._free, now_ns)
        self._at = {uuid: row for row, uuid in enumerate(snapshot.cards.uuids)}

    def all(self, moves: Sequence[MoveIn]) -> dict[str, To]:
        return {one.job: self._seated(self._movable(one.job), one) for one in moves}

    def _movable(self, name: str) -> Running:
        job = self._running.get(name)
        if job is None:
            raise NotFound(f"no job {name} holds cards now", hint=AGAIN)
        if job.shape.profile is not None:
            raise WrongState(f"job {name} has a partition, which stays where it was cut", hint=AGAIN)
        if not is_movable(job):
            raise WrongState(f"job {name} may not be moved: it is not preemptible, or leaves already", hint=AGAIN)
        return job

    def _seated(self, job: Running, asked: MoveIn) -> To:
        rows = np.array([self._row(uuid) for uuid in asked.cards], dtype=np.int64)
        fit, nodes = Fit(job.shape, self._free), set(self._free.cards.node[rows].tolist())
        if len(nodes) != 1 or not len(set(asked.cards)) == len(rows) == job.shape.count:
            wanted = f"{job.shape.count} different cards of one node"
            raise Conflict(f"job {job.job} needs {wanted}, not {', '.join(asked.cards)}", hint=AGAIN)
        self._check_read(asked, rows)
        takes = (fit.why == FITS) & self._spare.leaves_held(job, fit)
        if len(near.order(self._free, fit, rows)) < len(rows):
            raise Conflict(f"job {job.job} requires one NUMA node, and those cards' has not enough free", hint=AGAIN)
        for row in rows[~takes[rows]]:
            raise Conflict(self._no_room(job, int(row), int(fit.need[row])), hint=AGAIN)
        milli = job.shape.held_milli
        take(self._free, job.shape, nodes.pop(), rows, fit.need[rows])
        seats = tuple(Seat(uuid, milli, int(fit.need[row])) for uuid, row in zip(asked.cards, rows, strict=True))
        return To(seats, tuple(asked.generations))

    def _check_read(self, asked: MoveIn, rows: Ints) -> None:
        now = self._free.cards.generation[rows].tolist()
        if len(asked.generations) != len(now):
            raise BadInput(f"{len(now)} cards are named with {len(asked.generations)} generations", hint=AGAIN)
        for uuid, read, is_now in zip(asked.cards, asked.generations, now, strict=True):
            if read != is_now:
                changed = f"card {uuid} has changed since the plan was made"
                raise StaleGeneration(f"{changed}: generation {read} was read, it is {is_now} now", hint=AGAIN)

    def _row(self, uuid: str) -> int:
        if uuid not in self._at:
            raise NotFound(f"no card {uuid} in this pool", hint=AGAIN)
        return self._at[uuid]

    def _no_room(self, job: Running, row: int, need: int) -> str:
        free, held = self._free, self._spare.said(job, row, self._spare.after_move(job))
        has = format_share(max(0, int(free.milli[row])), max(0, int(free.size[row])))
        return (
            f"job {job.job} does not fit on card {free.cards.uuids[row]} any more: it needs "
            f"{format_share(job.shape.held_milli, need)}, {has} are free{held and f'; {held}'}"
        )
