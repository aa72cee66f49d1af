"""Stops a job, an array, or everything of a caller, in transactions of a bounded size.

A request of several transactions can be repeated: what is stopped stays so, and its Idempotency-Key
is recorded with the last one. A large gang is stopped part by part after its row says so (decision
0025).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays import view
from gpupool.allocations.arrays.ending import stop_rest
from gpupool.allocations.arrays.members import create_members
from gpupool.allocations.arrays.references import MemberReference
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.ledger import gang_lifecycle, job_stops, stop_reasons
from gpupool.allocations.lifecycle import stop_requests
from gpupool.allocations.lifecycle.leases import Leases
from gpupool.allocations.store.tables import HAS_REST, IS_LIVE, arrays, jobs
from gpupool.allocations.submission import gang_parts
from gpupool.allocations.submission.unsettled_gangs import UnsettledGangs
from gpupool.allocations.views import job as job_view
from gpupool.allocations.views import list as reading
from gpupool.base.errors import NoPermission, NotFound, NotOneJob, WrongState
from gpupool.model.job import LIVE, JobState
from gpupool.model.tenant import Permission, Principal
from gpupool.store import idempotency
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.jobs import JobOut

#: Jobs that one transaction stops at most: about 1,000 rows. The time of writing them was not
#: measured.
JOBS_AT_ONCE = 250

Row = sa.Row[Any]
#: Requests ends in a transaction; returns how many were not requested before.
Step = Callable[[WriteTransaction], int]
#: Is called in each transaction that stops something, with the number of jobs. The members of an
#: array that have no row yet are one.
StopNote = Callable[[WriteTransaction, int], None]


class StopService:
    """Stops jobs. Thread-safe; begins and commits its own transactions."""

    def __init__(
        self,
        store: Store,
        cache: LedgerCache,
        leases: Leases,
        gangs: UnsettledGangs,
        why: job_view.WaitReason,
    ) -> None:
        self._store = store
        self._cache = cache
        self._leases = leases
        self._gangs = gangs
        self._why = why

    def stop_job(
        self,
        named: str,
        principal: Principal,
        grace_s: int | None,
        note: StopNote | None = None,
    ) -> list[JobOut]:
        """Request the end of a job, or of all live jobs of an array. Idempotent.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: The job belongs to another user, and the caller manages no tenant.
            WrongState: The job has ended.
        """
        with self._store.read() as connection:
            named = _resolve_last(connection, principal, named)
            rows, array, member = _find_targets(connection, principal, named)
        targets = list[Row](rows)
        if array is not None:
            targets.append(array)
        if member is not None:
            targets.append(member.array)
        if not targets:
            raise self._build_error(named, principal)
        check_ownership(targets, principal, "stop")
        why = "user" if all(row.user_id == principal.user_id for row in targets) else "admin"
        steps: list[Step] = [] if array is None else [partial(self._stop_rest, array, why)]
        if member is not None:
            steps.append(partial(self._stop_member, member, why))
        if array is not None:
            # No further member is made from here on, so the live ones are all there are.
            self._run_step(steps.pop(), note, aside=bool(rows))
            with self._store.read() as connection:
                rows, _ = reading.find_live_jobs(connection, principal, named)
        self._run_steps(steps, [row.id for row in rows], why, grace_s, note)
        return self._read_stopped(named, rows, array, member, principal)

    def stop_all(self, principal: Principal, why: str, grace_s: int | None) -> int:
        """Stop every live job that the caller may stop.

        Returns:
            How many jobs, with the members of arrays that have no row yet.
        """
        mine = reading.jobs_in_scope(principal)
        my_arrays = reading.arrays_in_scope(principal)
        if not principal.has_permission(Permission.MANAGE_TENANT):
            mine = sa.and_(mine, jobs.c.user_id == principal.user_id)
            my_arrays = sa.and_(my_arrays, arrays.c.user_id == principal.user_id)
        with self._store.read() as connection:
            rests = connection.execute(view.ARRAY.where(HAS_REST, my_arrays)).all()
            ids = connection.execute(sa.select(jobs.c.id).where(mine, IS_LIVE)).scalars().all()
        count = len(ids)
        steps = list[Step]()
        # Rests first, so that no further member starts while the jobs are stopped.
        for row in rests:
            steps.append(partial(self._stop_rest, row, why))
            count += int(row.size - row.made)
        self._run_steps(steps, ids, why, grace_s)
        return count

    def stop_jobs(self, job_ids: Sequence[int], why: str, grace_s: int | None) -> None:
        """Request the end of these jobs, by row id."""
        self._run_steps([], job_ids, why, grace_s)

    # --- the writing -----------------------------------------------------------------------

    def _run_steps(
        self,
        first: Sequence[Step],
        job_ids: Sequence[int],
        why: str,
        grace_s: int | None,
        note: StopNote | None = None,
    ) -> None:
        gangs = self._read_gangs(job_ids)
        with self._store.read() as connection:
            large = gang_parts.find_large_gangs(connection, set(gangs.values()))
        steps = list[Step](first)
        for part in _split_jobs(job_ids, gangs, large):
            steps.append(partial(self._stop_part, part, why, grace_s))
        for gang in large:
            self._run_step(partial(self._end_gang, gang, why, grace_s), note, aside=True)
            # No member is added or placed from here on, so the live ones are all there are.
            for part in self._gangs.list_parts_to_stop(gang, asked=True):
                steps.append(partial(self._gangs.stop_part, gang, part))
        for number, step in enumerate(steps, 1):
            self._run_step(step, note, aside=number < len(steps))

    def _run_step(self, step: Step, note: StopNote | None, *, aside: bool) -> None:
        """Run one transaction; with `aside`, others of the request follow it."""
        # The Idempotency-Key is recorded with the last one: a request that was cut off half-way is
        # carried on when it is repeated. `freeing`: a full disk must not keep jobs from ending.
        with (
            idempotency.defer_key() if aside else nullcontext(),
            self._store.write(freeing=True) as write,
        ):
            count = step(write)
            if count and note is not None:
                note(write, count)

    def _read_gangs(self, job_ids: Sequence[int]) -> dict[int, int]:
        """Read the gangs of those of the jobs that are in one."""
        gangs = dict[int, int]()
        with self._store.read() as connection:
            for some in _split_evenly(job_ids):
                query = sa.select(jobs.c.id, jobs.c.gang_id).where(
                    jobs.c.id.in_(some), jobs.c.gang_id.is_not(None)
                )
                gangs |= {row.id: row.gang_id for row in connection.execute(query)}
        return gangs

    @staticmethod
    def _end_gang(gang: int, why: str, grace_s: int | None, write: WriteTransaction) -> int:
        gang_lifecycle.mark_gang_ending(write, gang, why, grace_s)
        return 0

    def _stop_part(
        self, job_ids: Sequence[int], why: str, grace_s: int | None, write: WriteTransaction
    ) -> int:
        gone, asked = stop_requests.request_stop(write, job_ids, why, grace_s)
        write.note(lambda: self._cache.dequeue_jobs(gone))
        write.note(lambda: self._cache.record_leaving_jobs(asked))
        write.note(lambda: self._leases.drop_leases(gone))
        return len(gone) + len(asked)

    def _stop_rest(self, array: Row, why: str, write: WriteTransaction) -> int:
        stopped = stop_rest(write, array.id, stop_reasons.STOP_REASONS.get(why, why))
        write.note(lambda: self._cache.dequeue_jobs([array.public_id]))
        return 0 if stopped is None else 1

    def _stop_member(
        self, member: reading.UncreatedMember, why: str, write: WriteTransaction
    ) -> int:
        # The member becomes a job that was stopped: without a row its array would start it.
        made = create_members(write, [str(MemberReference(member.array.public_id, member.index))])
        query = sa.select(jobs.c.id).where(jobs.c.public_id.in_(made.values()))
        ids = write.execute(query).scalars().all()
        stopped = job_stops.stop_waiting_jobs(write, ids, why)
        write.note(lambda: self._cache.record_created_members(made))
        return len(stopped)

    # --- the answer ------------------------------------------------------------------------

    def _read_stopped(
        self,
        named: str,
        rows: Sequence[Row],
        array: Row | None,
        member: reading.UncreatedMember | None,
        principal: Principal,
    ) -> list[JobOut]:
        found = list[JobOut]()
        with self._store.read() as connection:
            for some in _split_evenly([row.id for row in rows]):
                query = job_view.JOB.where(jobs.c.id.in_(some)).order_by(jobs.c.id)
                found += job_view.describe_jobs(
                    connection, connection.execute(query).all(), self._why
                )
            if member is not None:
                row = reading.find_job(connection, principal, named)
                found.append(job_view.read_job(connection, row.id, self._why))
            if array is not None:
                row = view.find_array(connection, arrays.c.id == array.id, array.public_id)
                # Its last members may have become jobs meanwhile.
                if row is not None and row.size > row.made:
                    found.append(view.describe_rest(row, self._why))
        return found

    def _build_error(self, named: str, principal: Principal) -> WrongState:
        with self._store.read() as connection:
            try:
                found = reading.find_job_or_member(connection, principal, named)
            except NotOneJob as error:
                return WrongState(f"every job of array {named} has ended already", hint=error.hint)
        state = JobState.STOPPED if isinstance(found, reading.UncreatedMember) else found.state
        return WrongState(
            f"job {found.name} is {state} already", hint="gpupool ps  shows what runs"
        )


def check_ownership(rows: Sequence[Row], principal: Principal, verb: str) -> None:
    """Raise NoPermission if a job is another user's and the caller manages no tenant."""
    others = [row for row in rows if row.user_id != principal.user_id]
    if others and not principal.has_permission(Permission.MANAGE_TENANT):
        raise NoPermission(
            f"job {others[0].name} belongs to somebody else",
            hint=f"its user or a tenant-admin can {verb} it",
        )


def find_live_jobs(connection: sa.Connection, public_ids: Sequence[str]) -> list[int]:
    """Return the row ids of those jobs that have not ended."""
    query = sa.select(jobs.c.id).where(jobs.c.public_id.in_(public_ids), jobs.c.state.in_(LIVE))
    return list(connection.execute(query).scalars())


def _resolve_last(connection: sa.Connection, principal: Principal, named: str) -> str:
    """Return the id that `last` stands for; any other name as it is."""
    if named != "last":
        return named
    try:
        return str(reading.find_job(connection, principal, named).public_id)
    except NotOneJob as error:
        return str(error.details["array"])


def _find_targets(
    connection: sa.Connection, principal: Principal, named: str
) -> tuple[Sequence[Row], Row | None, reading.UncreatedMember | None]:
    """Find what the name means: live jobs, an array with a rest, or a member without a row."""
    try:
        rows, array = reading.find_live_jobs(connection, principal, named)
    except NotFound:
        found = reading.find_job_or_member(connection, principal, named)
        if not isinstance(found, reading.UncreatedMember):
            # A job that was named by its reference from before it had a row.
            return [found] if found.state in LIVE else [], None, None
        return (), None, reading.find_waiting_member(connection, principal, named)
    if rows or array:
        return rows, array, None
    return rows, array, reading.find_waiting_member(connection, principal, named)


def _split_jobs(
    job_ids: Sequence[int], gangs: Mapping[int, int], large: Collection[int]
) -> Iterator[list[int]]:
    """Split jobs for transactions: each small gang by one member, then the others evenly.

    Jobs of `large` gangs are left out.
    """
    seen = set[int](large)
    for job in job_ids:
        gang = gangs.get(job)
        if gang is not None and gang not in seen:
            seen.add(gang)
            yield [job]
    yield from _split_evenly([job for job in job_ids if job not in gangs])


def _split_evenly(ids: Sequence[int]) -> Iterator[list[int]]:
    for first in range(0, len(ids), JOBS_AT_ONCE):
        yield list(ids[first : first + JOBS_AT_ONCE])
