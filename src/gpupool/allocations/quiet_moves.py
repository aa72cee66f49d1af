"""The pool defragments itself at quiet times, within a budget; off unless it is switched on.

What was spent is in the event log, written with the moves in one transaction: a server that was killed, or another one
that leads now, spends no budget twice. Moves are made as an admin's are (`making_moves`): proven again on the pool as
it is by then, all or none.
"""

from __future__ import annotations

import logging

import sqlalchemy as sa

from gpupool.allocations import making_moves
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.placing import Placer
from gpupool.base.errors import Conflict, NotFound, WrongState
from gpupool.scheduling.defrag import DefragPlan
from gpupool.scheduling.quiet_defrag import HOUR_SECONDS, Budget, Spent, is_quiet, plan_quietly
from gpupool.scheduling.snapshot import Snapshot
from gpupool.store.database import Store, Write
from gpupool.store.tables import events
from gpupool.wire.defrag import MoveIn, MovesIn

logger = logging.getLogger("gpupool")

EVENT = "defrag.moved"

#: Seconds between two looks at whether it is quiet.
LOOK_SECONDS = 60.0

#: A look takes at most so long: a plan for thousands of nodes takes seconds.
BUSY_SECONDS = 120.0

_NS = 10**9


class QuietMoves:
    """`budget` None: switched off. Every look is short, and a failed one is tried again with the next."""

    def __init__(self, store: Store, mirror: Mirror, placer: Placer, budget: Budget | None) -> None:
        self.budget = budget
        self._store = store
        self._mirror = mirror
        self._placer = placer

    def look(self) -> DefragPlan | None:
        """Make the moves that a quiet time and the budget allow; the plan that was carried out, None where none was."""
        if self.budget is None:
            return None
        snapshot, now_ns = self._placer.seen(), self._store.clock.now_ns()
        if not is_quiet(snapshot, now_ns, self.budget):
            return None
        plan = plan_quietly(snapshot, now_ns, self.budget, self.spent(now_ns))
        if plan is None:
            return None
        try:
            making_moves.apply(self._store, self._mirror, self._placer, _asked(snapshot, plan), _noted(plan))
        except (Conflict, NotFound, WrongState) as error:
            logger.info("automatic defragmentation waits, the pool has changed since its plan: %s", error.message)
            return None
        return plan

    def spent(self, now_ns: int) -> Spent:
        """What the log says of the last hour."""
        since = now_ns - HOUR_SECONDS * _NS
        query = sa.select(events.c.at_ns, events.c.kind, events.c.data).order_by(events.c.seq.desc())
        moves = lost = 0
        with self._store.read() as connection:
            rows = connection.execution_options(stream_results=True).execute(query)
            for row in rows:
                if row.at_ns < since:
                    break
                if row.kind == EVENT:
                    moves += int(row.data["moves"])
                    lost += int(row.data["lost_gpu_seconds"])
            rows.close()
        return Spent(moves, lost)


def _asked(snapshot: Snapshot, plan: DefragPlan) -> MovesIn:
    cards = snapshot.cards
    moves = []
    for move in plan.moves:
        named = [cards.uuids[row] for row in move.rows]
        generations = cards.generation[list(move.rows)].tolist()
        moves.append(MoveIn(job=move.job, cards=named, generations=generations))
    return MovesIn(moves=moves)


def _noted(plan: DefragPlan) -> making_moves.Note:
    def note(write: Write) -> None:
        data = {
            "moves": len(plan.moves),
            "lost_gpu_seconds": plan.lost_gpu_seconds,
            "whole_nodes_before": plan.gain.nodes[0],
            "whole_nodes_after": plan.gain.nodes[1],
        }
        write.event(EVENT, "pool", data=data)

    return note
