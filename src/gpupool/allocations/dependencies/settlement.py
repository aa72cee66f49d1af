"""Decides dependencies in the transaction that ends what they await.

A decision releases the claims that wait for nothing more, and ends those that can no longer start,
which may decide further dependencies. What is more than one transaction should write is decided in
it, and ended part by part later: the next cycle of the placer, or the next server, finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.arrays.ending import stop_rest
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.cache.start_waits import StartWait
from gpupool.allocations.dependencies.rows import NEW_DEPENDENCIES
from gpupool.allocations.dependencies.standings import (
    ARRAY,
    GANG,
    JOB,
    DependencyTarget,
    read_standing,
)
from gpupool.allocations.ledger import gang_lifecycle, job_stops
from gpupool.allocations.ledger.stop_reasons import DEPENDENCY
from gpupool.allocations.store.dependency_table import (
    DOOMED,
    IS_DOOMED,
    IS_OPEN,
    dependencies,
    read_waits,
)
from gpupool.allocations.store.tables import IS_LIVE, arrays, jobs
from gpupool.base.errors import GpupoolError
from gpupool.model.chains.dependency import DependencyCondition, DependencyOutcome, judge_dependency
from gpupool.model.job import JobState
from gpupool.store.database import Store, WriteTransaction

logger = logging.getLogger(__name__)

#: Claims that one transaction ends at most, because their dependency can no longer be met.
ENDED_AT_ONCE: Final = 100
_SUBMITTED: Final = "job.submitted"
#: Parameters of one statement at most.
_CHUNK: Final = 500

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_ANY_OPEN = sa.select(dependencies.c.id).where(IS_OPEN).limit(1)
_ENDED_JOBS = sa.select(jobs.c.id, jobs.c.array_id, jobs.c.array_index, jobs.c.gang_id).where(
    jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True))
)
_ENDED_ARRAYS = sa.select(arrays.c.id).where(
    arrays.c.public_id.in_(sa.bindparam("arrays", expanding=True))
)
_AWAITED = (
    sa.select(dependencies.c.target_id, dependencies.c.target_index)
    .where(
        IS_OPEN,
        dependencies.c.kind == sa.bindparam("kind"),
        dependencies.c.target_id.in_(sa.bindparam("keys", expanding=True)),
    )
    .distinct()
)
_DOOMED_CLAIMS = (
    sa.select(
        dependencies.c.claim_id,
        dependencies.c.kind,
        dependencies.c.name,
        dependencies.c.condition,
        dependencies.c.ending,
    )
    .where(IS_DOOMED)
    .order_by(dependencies.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_ARRAY_OF = sa.select(arrays.c.id, arrays.c.public_id).where(
    arrays.c.claim_id == sa.bindparam("claim")
)
_WAITING_OF = sa.select(jobs.c.id, jobs.c.gang_id).where(
    jobs.c.claim_id == sa.bindparam("claim"), IS_LIVE, jobs.c.state == JobState.PENDING
)
_FINISH = (
    dependencies.update()
    .where(dependencies.c.claim_id == sa.bindparam("claim"), IS_DOOMED)
    .values(outcome=DependencyOutcome.NEVER)
)


class DependencySettlement:
    """Decides dependencies. Thread-safe; `settle_write` runs in the transaction of its caller."""

    def __init__(self, store: Store, cache: LedgerCache, settle_gangs: Callable[[], None]) -> None:
        self._store = store
        self._cache = cache
        self._settle_gangs = settle_gangs
        #: Whether claims are left whose end is decided and not written.
        self._has_left = True

    def settle_write(self, write: WriteTransaction) -> None:
        """Decide what the ends in this transaction decide, and note it for the cache. Idempotent."""
        seen = 0
        left = ENDED_AT_ONCE
        changed = set[int]()
        if NEW_DEPENDENCIES in write.subjects():
            changed = _find_new_claims(write, _list_subjects(write.list_events(), _SUBMITTED))
        while events := write.list_events(seen):
            seen += len(events)
            ended = _list_subjects(events, "job.ended")
            stopped = _list_subjects(events, "array.stopped")
            if not (ended or stopped) or write.execute(_ANY_OPEN).first() is None:
                continue
            for target in _find_awaited(write, ended, stopped):
                changed |= _decide_target(write, target)
            left -= self._end_doomed(write, left)
        if changed:
            self._note_changes(write, changed)

    def settle_left(self) -> None:
        """End the claims that a transaction decided and left to be ended. Idempotent.

        Begins and commits transactions of a bounded size.
        """
        if not self._has_left:
            return
        self._has_left = False
        try:
            while self._has_doomed():
                with self._store.write(freeing=True) as write:
                    self._end_doomed(write, ENDED_AT_ONCE)
            self._settle_gangs()
        except GpupoolError:
            self._has_left = True
            raise

    def _has_doomed(self) -> bool:
        with self._store.read() as connection:
            return connection.execute(_DOOMED_CLAIMS, {"most": 1}).first() is not None

    def _end_doomed(self, write: WriteTransaction, most: int) -> int:
        """End claims whose dependency can no longer be met; return how many."""
        rows = write.execute(_DOOMED_CLAIMS, {"most": most + 1}).all()
        if len(rows) > most:
            self._leave_rest(write)
        claims = {row.claim_id: row for row in reversed(rows[:most])}
        for row in claims.values():
            gone, is_whole = _end_claim(write, row)
            write.note(partial(self._cache.dequeue_jobs, gone))
            if not is_whole:
                self._leave_rest(write)
        return len(claims)

    def _leave_rest(self, write: WriteTransaction) -> None:
        # After the commit: a look before it would find nothing and forget the mark.
        write.note(self._mark_left)
        write.announce("queue")

    def _mark_left(self) -> None:
        self._has_left = True

    def _note_changes(self, write: WriteTransaction, claims: Collection[int]) -> None:
        waits = dict[str, StartWait | None]()
        for some in _split(sorted(claims)):
            sentences = read_waits(write.connection, some)
            for claim, entry in _list_entries(write.connection, some):
                sentence = sentences.get(claim)
                waits[entry] = None if sentence is None else StartWait(sentence)
        write.note(partial(self._change_waits, waits))
        write.announce("queue", *(("job", entry) for entry in waits))

    def _change_waits(self, waits: dict[str, StartWait | None]) -> None:
        with self._cache.lock:
            self._cache.enqueue_jobs(self._cache.waits.change_waits(waits))


def _find_new_claims(write: WriteTransaction, submitted: Sequence[str]) -> set[int]:
    """Find the claims of submissions: what they await may have ended as they were written."""
    found = set[int]()
    for some in _split(submitted):
        mine = sa.select(jobs.c.claim_id, jobs.c.gang_id).where(
            jobs.c.public_id.in_(some),
            sa.exists().where(dependencies.c.claim_id == jobs.c.claim_id),
        )
        for row in write.execute(mine).all():
            found.add(row.claim_id)
            if row.gang_id is not None:
                theirs = sa.select(jobs.c.claim_id).where(jobs.c.gang_id == row.gang_id)
                found.update(write.execute(theirs.distinct()).scalars())
    return found


def _find_awaited(
    write: WriteTransaction, ended: Sequence[str], stopped: Sequence[str]
) -> Iterator[DependencyTarget]:
    """Find what of the ended jobs, and of their arrays and gangs, is awaited."""
    keys: dict[str, set[int]] = {JOB: set(), ARRAY: set(), GANG: set()}
    members = set[tuple[int, int]]()
    for some in _split(ended):
        for row in write.execute(_ENDED_JOBS, {"jobs": some}):
            keys[JOB].add(row.id)
            if row.gang_id is not None:
                keys[GANG].add(row.gang_id)
            if row.array_id is not None:
                keys[ARRAY].add(row.array_id)
                members.add((row.array_id, row.array_index))
    whole = set[int]()
    for some in _split(stopped):
        whole.update(write.execute(_ENDED_ARRAYS, {"arrays": some}).scalars())
    keys[ARRAY] |= whole
    for kind, theirs in keys.items():
        for some_keys in _split(sorted(theirs)):
            for row in write.execute(_AWAITED, {"kind": kind, "keys": some_keys}).all():
                key = (row.target_id, row.target_index)
                if row.target_index is None or row.target_id in whole or key in members:
                    yield DependencyTarget(kind, row.target_id, row.target_index)


def _decide_target(write: WriteTransaction, target: DependencyTarget) -> set[int]:
    """Decide the open dependencies on a target; return the claims that have one of them."""
    standing = read_standing(write.connection, target)
    claims = set[int]()
    for condition in DependencyCondition:
        outcome = judge_dependency(condition, standing)
        if outcome is not None:
            claims.update(_write_outcome(write, target, condition, outcome, standing.text))
    return claims


def _write_outcome(
    write: WriteTransaction,
    target: DependencyTarget,
    condition: DependencyCondition,
    outcome: DependencyOutcome,
    text: str,
) -> Iterable[int]:
    mine = sa.and_(
        IS_OPEN,
        dependencies.c.kind == target.kind,
        dependencies.c.target_id == target.key,
        dependencies.c.target_index.is_not_distinct_from(target.index),
        dependencies.c.condition == condition,
    )
    stored = DOOMED if outcome is DependencyOutcome.NEVER else outcome
    values = {"outcome": stored, "ending": text[:400], "settled_ns": write.now_ns}
    decided = dependencies.update().where(mine).values(values).returning(dependencies.c.claim_id)
    return write.execute(decided).scalars().all()


def _end_claim(write: WriteTransaction, row: Any) -> tuple[list[str], bool]:
    """End the waiting jobs of a claim. Idempotent.

    Returns:
        Their entries of the queue, and False for a large gang, whose members end part by part.
    """
    claim = {"claim": row.claim_id}
    write.execute(_FINISH, claim)
    sentence = f"{row.kind} {row.name} ended {row.ending}; it waited for {row.condition}"[:400]
    gone = list[str]()
    array = write.execute(_ARRAY_OF, claim).one_or_none()
    if array is not None and stop_rest(write, array.id, sentence) is not None:
        gone.append(array.public_id)
    rows = write.execute(_WAITING_OF, claim).all()
    ids = [one.id for one in rows]
    if rows and rows[0].gang_id is not None:
        # The other roles have the same dependencies, and end with it.
        ids = gang_lifecycle.list_gang_members(write, ids)
        if len(ids) > gang_lifecycle.MEMBERS_AT_ONCE:
            gang_lifecycle.mark_gang_ending(write, rows[0].gang_id, DEPENDENCY, None)
            return gone, False
    return gone + job_stops.stop_waiting_jobs(write, ids, DEPENDENCY, sentence), True


def _list_entries(connection: sa.Connection, claims: Collection[int]) -> Iterator[tuple[int, str]]:
    """List the claim and the name of the entries of the queue that these claims may have."""
    waiting = sa.select(jobs.c.claim_id, jobs.c.public_id).where(
        jobs.c.claim_id.in_(claims), IS_LIVE, jobs.c.state == JobState.PENDING
    )
    rests = sa.select(arrays.c.claim_id, arrays.c.public_id).where(arrays.c.claim_id.in_(claims))
    for row in connection.execute(sa.union_all(waiting, rests)):
        yield row.claim_id, row.public_id


def _split(items: Sequence[Any]) -> Iterator[list[Any]]:
    for first in range(0, len(items), _CHUNK):
        yield list(items[first : first + _CHUNK])


def _list_subjects(events: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return [event["subject"] for event in events if event["kind"] == kind]
