"""Decides which moves of promised starts are announced.

A start is compared with the instant that was announced last, not with the last plan: small moves
add up, and an unchanged plan announces nothing. The notice of a broken promise is kept while its
claim waits, so that the next promise is a move. Pure except for what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from gpupool.allocations.store.hold_tables import broken_promises
from gpupool.allocations.store.tables import arrays, gangs, jobs
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling import LEEWAY_NS
from gpupool.store.database import WriteTransaction

EVENT: Final = "job.promise-moved"
#: A smaller move is not announced.
LEAST_MOVE_NS: Final = 600 * NANOS_PER_SECOND
#: Nor is a move by less than this part of the remaining time: a tenth.
PARTS: Final = 10
#: Time between two announcements of one claim, so that a start that alternates between two
#: instants is announced once.
PAUSE_NS: Final = 600 * NANOS_PER_SECOND


class StartNotice(NamedTuple):
    """The start that a claim's last notice named; `moved_ns`: when a move was announced."""

    at_ns: int
    moved_ns: int | None = None


class StartMove(NamedTuple):
    """A promised start that moved, with the instant that was announced before."""

    claim: str
    before_ns: int
    after_ns: int


class StartMoves:
    """The last notices of the promises in the database. One thread at a time."""

    def __init__(self) -> None:
        self._notices: Mapping[str, StartNotice] = {}
        #: Last notices of claims that wait and whose promise was broken.
        self._broken: Mapping[str, StartNotice] = {}
        #: Instants of the last plan that are moves and are not written yet.
        self._pending: dict[str, int] = {}

    def restore(
        self, notices: Mapping[str, StartNotice], broken: Mapping[str, StartNotice] | None = None
    ) -> None:
        """Replace everything by what is written."""
        self._notices = dict(notices)
        self._broken = dict(broken or {})
        self._pending = {}

    def note_plan(self, starts: Mapping[str, int], now_ns: int) -> None:
        """Note the promised starts of a plan, by claim."""
        self._pending = {}
        for claim, at_ns in starts.items():
            notice = self._notices.get(claim)
            if notice is not None and is_move(notice, at_ns, now_ns):
                self._pending[claim] = at_ns

    @property
    def is_urgent(self) -> bool:
        """Whether a move is to be written."""
        return bool(self._pending)

    def judge(
        self, standing: Iterable[str], new: Mapping[str, int], now_ns: int
    ) -> tuple[dict[str, StartNotice], list[StartMove]]:
        """Return each claim's notice from now on, and the moves. Changes nothing.

        Args:
            standing: Claims whose promise stands.
            new: Starts that are promised anew, by claim.
        """
        notices = dict[str, StartNotice]()
        moves = list[StartMove]()
        for claim in sorted(standing):
            before = self._notices.get(claim) or self._broken.get(claim)
            at_ns = new.get(claim, self._pending.get(claim))
            if before is None:
                # A promise of an earlier version, or the first one.
                notices[claim] = StartNotice(at_ns or 0)
            elif at_ns is not None and is_move(before, at_ns, now_ns):
                notices[claim] = StartNotice(at_ns, now_ns)
                moves.append(StartMove(claim, before.at_ns, at_ns))
            else:
                notices[claim] = before
        return notices, moves

    def list_broken(
        self, broken: Iterable[str], waits: Callable[[str], bool]
    ) -> dict[str, StartNotice]:
        """Return the last notices of claims that wait without a promise. Changes nothing.

        Args:
            broken: Claims whose promise was broken since the last write.
            waits: Whether a claim still waits for a promise.
        """
        notices = {claim: notice for claim, notice in self._broken.items() if waits(claim)}
        for claim in broken:
            notice = self._notices.get(claim)
            if notice is not None and waits(claim):
                notices[claim] = notice
        return notices

    def write_broken(self, write: WriteTransaction, notices: Mapping[str, StartNotice]) -> None:
        """Replace the written notices of broken promises, in the caller's transaction."""
        over = [claim for claim in self._broken if claim not in notices]
        if over:
            query = sa.delete(broken_promises).where(broken_promises.c.claim.in_(sorted(over)))
            write.execute(query)
        rows = list[dict[str, str | int | None]]()
        for claim, notice in sorted(notices.items()):
            if claim not in self._broken:
                rows.append(
                    {"claim": claim, "notice_ns": notice.at_ns, "moved_ns": notice.moved_ns}
                )
        if rows:
            write.execute(sa.insert(broken_promises), rows)

    def confirm(
        self, notices: Mapping[str, StartNotice], broken: Mapping[str, StartNotice] | None = None
    ) -> None:
        """Take over what a committed write says."""
        self._notices = notices
        self._broken = broken or {}
        self._pending = {}


def is_move(notice: StartNotice, at_ns: int, now_ns: int) -> bool:
    """Whether a start differs so much from the last notice that its move is announced."""
    if notice.moved_ns is not None and now_ns < notice.moved_ns + PAUSE_NS:
        return False
    left_ns = max(0, notice.at_ns - now_ns)
    return abs(at_ns - notice.at_ns) > max(LEAST_MOVE_NS, left_ns // PARTS)


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
            # Promises are displayed with the leeway of job ends.
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
