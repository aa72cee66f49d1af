"""Defragments the pool by itself at quiet times, within a budget; off by default."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.migration import apply
from gpupool.allocations.placement.placer import Placer
from gpupool.base.errors import NotFound, WriteConflict, WrongState
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling import (
    HOUR_SECONDS,
    DefragmentBudget,
    DefragmentPlan,
    DefragmentSpending,
    Snapshot,
    is_quiet_time,
    plan_automatic_defragmentation,
)
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.tables import events
from gpupool.wire.defrag import MoveIn, MovesIn

logger = logging.getLogger("gpupool")

#: The event that a move writes, and by which the budget of the last hour is read.
EVENT = "defrag.moved"

#: Seconds between two looks at whether it is quiet.
LOOK_SECONDS = 60.0

#: A look takes at most so long: a plan for thousands of nodes takes seconds.
BUSY_SECONDS = 120.0


class AutomaticDefragmentation:
    """Makes moves at quiet times. `budget` None switches it off."""

    def __init__(
        self, store: Store, cache: LedgerCache, placer: Placer, budget: DefragmentBudget | None
    ) -> None:
        self.budget = budget
        self._store = store
        self._cache = cache
        self._placer = placer

    def run_if_quiet(self) -> DefragmentPlan | None:
        """Make the moves that a quiet time and the budget allow. A failed call is repeated later.

        Returns:
            The plan that was applied; None if there was none.
        """
        if self.budget is None:
            return None
        # The budget is in the event log and not in memory, so that a restart does not renew it.
        snapshot = self._placer.take_snapshot()
        now_ns = self._store.clock.now_ns()
        if not is_quiet_time(snapshot, now_ns, self.budget):
            return None
        plan = plan_automatic_defragmentation(
            snapshot, now_ns, self.budget, self.read_spent_budget(now_ns)
        )
        if plan is None:
            return None
        moves = _build_moves(snapshot, plan)
        try:
            apply.apply_moves(self._store, self._cache, self._placer, moves, _make_note(plan))
        except (WriteConflict, NotFound, WrongState) as error:
            logger.info(
                "automatic defragmentation waits, the pool has changed since its plan: %s",
                error.message,
            )
            return None
        return plan

    def read_spent_budget(self, now_ns: int) -> DefragmentSpending:
        """Read from the event log what the last hour has spent."""
        since = now_ns - HOUR_SECONDS * NANOS_PER_SECOND
        query = sa.select(events.c.at_ns, events.c.kind, events.c.data).order_by(
            events.c.seq.desc()
        )
        moves = 0
        lost = 0
        with self._store.read() as connection:
            # Backwards and as a stream: an hour is a small part of a log of years.
            rows = connection.execution_options(stream_results=True).execute(query)
            for row in rows:
                if row.at_ns < since:
                    break
                if row.kind == EVENT:
                    moves += int(row.data["moves"])
                    lost += int(row.data["lost_gpu_seconds"])
            rows.close()
        return DefragmentSpending(moves, lost)


def _build_moves(snapshot: Snapshot, plan: DefragmentPlan) -> MovesIn:
    cards = snapshot.cards
    moves = []
    for move in plan.moves:
        named = [cards.uuids[row] for row in move.rows]
        generations = cards.generation[list(move.rows)].tolist()
        moves.append(MoveIn(job=move.job, cards=named, generations=generations))
    return MovesIn(moves=moves)


def _make_note(plan: DefragmentPlan) -> apply.Note:
    def write_event(write: WriteTransaction) -> None:
        data = {
            "moves": len(plan.moves),
            "lost_gpu_seconds": plan.lost_gpu_seconds,
            "whole_nodes_before": plan.gain.nodes[0],
            "whole_nodes_after": plan.gain.nodes[1],
        }
        write.event(EVENT, "pool", data=data)

    return write_event
