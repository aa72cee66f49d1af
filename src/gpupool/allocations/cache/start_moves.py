"""Decides when a promised start has moved so far that people are told of it.

A start is compared with the instant that was told last, not with the last plan: small steps add up,
and a plan that changes nothing tells nothing. Pure but for the event that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from gpupool.allocations.store.tables import arrays, gangs, jobs
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling import LEEWAY_NS
from gpupool.store.database import WriteTransaction

EVENT: Final = "job.promise-moved"
#: A start that moves by less is not told.
LEAST_MOVE_NS: Final = 600 * NANOS_PER_SECOND
#: Nor one that moves by less than this part of the time that was left: a tenth.
PARTS: Final = 10
#: After a move the next one of the same claim waits so long, so that a start that goes to and fro
#: is told of once.
PAUSE_NS: Final = 600 * NANOS_PER_SECOND


class ToldStart(NamedTuple):
    """What was last told of a claim's start; `moved_ns`: when a move was told, None: never."""

    at_ns: int
    moved_ns: int | None = None


class StartMove(NamedTuple):
    """A promised start that moved, from what was told last."""

    claim: str
    before_ns: int
    after_ns: int


class StartMoves:
    """What was told of promised starts that are written. One thread at a time."""

    def __init__(self) -> None:
        self._told: Mapping[str, ToldStart] = {}
        #: Instants of the last plan that are moves and are not written yet.
        self._pending: dict[str, int] = {}

    def restore(self, told: Mapping[str, ToldStart]) -> None:
        """Replace everything by what is written."""
        self._told = dict(told)
        self._pending = {}

    def note_plan(self, starts: Mapping[str, int], now_ns: int) -> None:
        """Note the promised starts of a plan, by claim."""
        self._pending = {}
        for claim, at_ns in starts.items():
            told = self._told.get(claim)
            if told is not None and is_move(told, at_ns, now_ns):
                self._pending[claim] = at_ns

    @property
    def is_urgent(self) -> bool:
        """Whether a move is to be written."""
        return bool(self._pending)

    def judge(
        self, standing: Iterable[str], new: Mapping[str, int], now_ns: int
    ) -> tuple[dict[str, ToldStart], list[StartMove]]:
        """Return what is told of each claim from now on, and the moves. Changes nothing.

        Args:
            standing: Claims whose promise stands.
            new: Starts that are promised anew, by claim.
        """
        told = dict[str, ToldStart]()
        moves = list[StartMove]()
        for claim in sorted(standing):
            before = self._told.get(claim)
            at_ns = new.get(claim, self._pending.get(claim))
            if before is None:
                # A promise of an earlier version, or the first one.
                told[claim] = ToldStart(at_ns or 0)
            elif at_ns is not None and is_move(before, at_ns, now_ns):
                told[claim] = ToldStart(at_ns, now_ns)
                moves.append(StartMove(claim, before.at_ns, at_ns))
            else:
                told[claim] = before
        return told, moves

    def confirm(self, told: Mapping[str, ToldStart]) -> None:
        """Take over what a committed write says."""
        self._told = told
        self._pending = {}


def is_move(told: ToldStart, at_ns: int, now_ns: int) -> bool:
    """Whether people are to be told of a start that is another than they were told."""
    if told.moved_ns is not None and now_ns < told.moved_ns + PAUSE_NS:
        return False
    left_ns = max(0, told.at_ns - now_ns)
    return abs(at_ns - told.at_ns) > max(LEAST_MOVE_NS, left_ns // PARTS)


def write_moves(write: WriteTransaction, moves: Iterable[StartMove]) -> None:
    """Write the event of each move, in the caller's transaction.

    A gang's is of its first member, that of a member without a row of its array.
    """
    for move in moves:
        row = _find_job(write, move.claim)
        if row is None:
            continue
        data = {
            "name": row.name,
            # As people are shown a promise: with the leeway of job ends.
            "before_ns": move.before_ns + LEEWAY_NS,
            "after_ns": move.after_ns + LEEWAY_NS,
        }
        write.event(EVENT, row.public_id, tenant_id=row.tenant_id, data=data)


def _find_job(write: WriteTransaction, claim: str) -> sa.Row[tuple[str, str, int]] | None:
    columns = (jobs.c.public_id, jobs.c.name, jobs.c.tenant_id)
    own = sa.select(*columns).where(jobs.c.public_id == claim)
    of_gang = sa.select(*columns).join(gangs, gangs.c.id == jobs.c.gang_id)
    of_gang = of_gang.where(gangs.c.public_id == claim).order_by(jobs.c.id).limit(1)
    of_array = sa.select(arrays.c.public_id, arrays.c.name, arrays.c.tenant_id)
    of_array = of_array.where(arrays.c.public_id == claim.partition(".")[0])
    for query in (own, of_gang, of_array):
        row = write.execute(query).first()
        if row is not None:
            return row
    return None
