"""Applies planned moves: each is checked again on the pool as it is now, then all are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.cache.migrations import MigrationTarget, start_migrations
from gpupool.allocations.placement.placer import Placer
from gpupool.base.errors import BadInput, NotFound, StaleGeneration, WriteConflict, WrongState
from gpupool.base.units import format_share
from gpupool.model.allocation import Seat
from gpupool.scheduling import (
    FITS,
    ClaimFit,
    Ints,
    RunningJob,
    Snapshot,
    UnreservedCapacity,
    is_movable,
    measure_unheld_capacity,
    order_by_numa_affinity,
    take_seats,
)
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.defrag import MoveIn, MovesIn, MovesOut

#: The hint of every refusal: the pool has changed, so only a new plan can help.
AGAIN = "gpupool defrag  or  gpupool rebalance  plans anew"


#: Writes something of its own in the transaction of the moves.
Note = Callable[[WriteTransaction], None]


def _write_nothing(_write: WriteTransaction) -> None:
    """Write nothing of its own."""


def apply_moves(
    store: Store, cache: LedgerCache, placer: Placer, asked: MovesIn, note: Note = _write_nothing
) -> MovesOut:
    """Hold new seats for all jobs and ask them to move, or do nothing.

    Args:
        store: The ledger.
        cache: Its copy, which learns of the holds.
        placer: Makes no plan until the moves are written.
        asked: The jobs with their new cards.
        note: Called in the transaction of the moves.

    Raises:
        NotFound: A job or a card is unknown.
        WrongState: A job cannot move now.
        WriteConflict: The pool has changed since the plan.
        StaleGeneration: A card changed while the moves were written.
    """
    cards = set[str]()
    for move in asked.moves:
        cards.update(move.cards)
    with placer.pause_placement(cards) as snapshot:
        targets = _MoveCheck(snapshot, store.clock.now_ns()).build_targets(asked.moves)
        with store.write() as write:
            moving, notes = start_migrations(write, targets)
            note(write)
            write.note(lambda: cache.record_cards(notes))
            write.note(lambda: cache.record_migrations(moving))
    return MovesOut(moving=list(moving), ended=[job for job in targets if job not in moving])


class _MoveCheck:
    """Checks moves one after the other on what is free now and held for no other claim."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._running = {job.job: job for job in snapshot.running}
        self._free = measure_unheld_capacity(snapshot)
        self._spare = UnreservedCapacity(snapshot, self._free, now_ns)
        self._at = {uuid: row for row, uuid in enumerate(snapshot.cards.uuids)}

    def build_targets(self, moves: Sequence[MoveIn]) -> dict[str, MigrationTarget]:
        """Return the new seats of each job; raise the first reason against a move."""
        return {move.job: self._build_target(self._find_movable(move.job), move) for move in moves}

    def _find_movable(self, name: str) -> RunningJob:
        job = self._running.get(name)
        if job is None:
            raise NotFound(f"no job {name} holds cards now", hint=AGAIN)
        if job.shape.profile is not None:
            raise WrongState(
                f"job {name} has a partition, which stays where it was cut", hint=AGAIN
            )
        if not is_movable(job):
            raise WrongState(
                f"job {name} may not be moved: it is not preemptible, or leaves already", hint=AGAIN
            )
        return job

    def _build_target(self, job: RunningJob, asked: MoveIn) -> MigrationTarget:
        rows = np.array([self._row(uuid) for uuid in asked.cards], dtype=np.int64)
        fit = ClaimFit(job.shape, self._free)
        nodes = set(self._free.cards.node[rows].tolist())
        if len(nodes) != 1 or not len(set(asked.cards)) == len(rows) == job.shape.count:
            wanted = f"{job.shape.count} different cards of one node"
            raise WriteConflict(
                f"job {job.job} needs {wanted}, not {', '.join(asked.cards)}", hint=AGAIN
            )
        self._check_generations(asked, rows)
        takes = (fit.why == FITS) & self._spare.find_unheld_cards(job, fit)
        if len(order_by_numa_affinity(self._free, fit, rows)) < len(rows):
            raise WriteConflict(
                f"job {job.job} requires one NUMA node, and those cards' has not enough free",
                hint=AGAIN,
            )
        for row in rows[~takes[rows]]:
            raise WriteConflict(self._no_room(job, int(row), int(fit.need[row])), hint=AGAIN)
        milli = job.shape.held_milli
        # Taken from the working copy, so that the next move of the request finds less. What the job
        # leaves is not given back to it: the job holds it until it has saved its work.
        take_seats(self._free, job.shape, nodes.pop(), rows, fit.need[rows])
        seats = tuple(
            Seat(uuid, milli, int(fit.need[row]))
            for uuid, row in zip(asked.cards, rows, strict=True)
        )
        return MigrationTarget(seats, tuple(asked.generations))

    def _check_generations(self, asked: MoveIn, rows: Ints) -> None:
        # A plan may be minutes old when an administrator applies it.
        now = self._free.cards.generation[rows].tolist()
        if len(asked.generations) != len(now):
            raise BadInput(
                f"{len(now)} cards are named with {len(asked.generations)} generations", hint=AGAIN
            )
        for uuid, read, is_now in zip(asked.cards, asked.generations, now, strict=True):
            if read != is_now:
                changed = f"card {uuid} has changed since the plan was made"
                raise StaleGeneration(
                    f"{changed}: generation {read} was read, it is {is_now} now", hint=AGAIN
                )

    def _row(self, uuid: str) -> int:
        if uuid not in self._at:
            raise NotFound(f"no card {uuid} in this pool", hint=AGAIN)
        return self._at[uuid]

    def _no_room(self, job: RunningJob, row: int, need: int) -> str:
        free = self._free
        held = self._spare.describe_hold(job, row, self._spare.compute_end_after_move(job))
        has = format_share(max(0, int(free.milli[row])), max(0, int(free.size[row])))
        return (
            f"job {job.job} does not fit on card {free.cards.uuids[row]} any more: it needs "
            f"{format_share(job.shape.held_milli, need)}, {has} are free{held and f'; {held}'}"
        )
