"""Stopping jobs, a whole array or everything of a caller: in transactions of a bounded size, however much is meant.

A request that needs several is repeated safely: what is stopped stays so, and its Idempotency-Key is recorded with the
last of them. A gang is stopped in one, a large one part by part after its row says so (decision 0025).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.allocations import gang_parts, job_view, progress, reading, together
from gpupool.allocations.arrays import view
from gpupool.allocations.arrays.ending import stop_rest
from gpupool.allocations.arrays.members import make_members
from gpupool.allocations.arrays.references import Reference
from gpupool.allocations.leases import Leases
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.tables import HAS_REST, IS_LIVE, arrays, jobs
from gpupool.allocations.unsettled import UnsettledGangs
from gpupool.base.errors import NotAllowed, NotFound, NotOneJob, WrongState
from gpupool.model.job import LIVE, JobState
from gpupool.model.tenant import Permission, Principal
from gpupool.store import replay
from gpupool.store.database import Store, Write
from gpupool.wire.jobs import JobOut

JOBS_AT_ONCE = 250
"""Jobs that one transaction stops: about 1,000 rows. The time of writing them was not measured."""

Row = sa.Row[Any]
Step = Callable[[Write], None]


class Stopping:
    """Thread-safe."""

    def __init__(self, store: Store, mirror: Mirror, leases: Leases, gangs: UnsettledGangs, why: job_view.Why) -> None:
        self._store, self._mirror, self._leases = store, mirror, leases
        self._gangs, self._why = gangs, why

    def stop(self, named: str, principal: Principal, grace_s: int | None) -> list[JobOut]:
        """Ask for the end of a job, or of all live jobs of an array. Raises NotFound, NotAllowed, WrongState."""
        with self._store.read() as connection:
            named = _meant(connection, principal, named)
            rows, array, member = _targets(connection, principal, named)
        of_arrays = [one for one in (array, None if member is None else member.array) if one is not None]
        targets: list[Row] = [*rows, *of_arrays]
        if not targets:
            raise self._ended(named, principal)
        check_may(targets, principal, "stop")
        why = "user" if all(row.user_id == principal.user_id for row in targets) else "admin"
        steps: list[Step] = [] if array is None else [partial(self._stop_rest, array, why)]
        if member is not None:
            steps.append(partial(self._stop_member, member, why))
        if array is not None:
            # No further member is made from here on, so the live ones are all there are.
            self._step(steps.pop(), aside=bool(rows))
            with self._store.read() as connection:
                rows, _ = reading.find_all_live(connection, principal, named)
        self._carry_out(steps, [row.id for row in rows], why, grace_s)
        return self._stopped(named, rows, array, member, principal)

    def stop_all(self, principal: Principal, why: str, grace_s: int | None) -> int:
        """Stop every live job the caller may stop; how many that were, the members of arrays that wait among them."""
        mine, my_arrays = reading.scope(principal), reading.in_scope(principal)
        if not principal.may(Permission.MANAGE_TENANT):
            mine = sa.and_(mine, jobs.c.user_id == principal.user_id)
            my_arrays = sa.and_(my_arrays, arrays.c.user_id == principal.user_id)
        with self._store.read() as connection:
            rests = connection.execute(view.ARRAY.where(HAS_REST, my_arrays)).all()
            ids = connection.execute(sa.select(jobs.c.id).where(mine, IS_LIVE)).scalars().all()
        self._carry_out([partial(self._stop_rest, row, why) for row in rests], ids, why, grace_s)
        return len(ids) + sum(int(row.size - row.made) for row in rests)

    def stop_jobs(self, job_ids: Sequence[int], why: str, grace_s: int | None) -> None:
        self._carry_out([], job_ids, why, grace_s)

    # --- the writing -----------------------------------------------------------------------

    def _carry_out(self, first: Sequence[Step], job_ids: Sequence[int], why: str, grace_s: int | None) -> None:
        gangs = self._gangs_of(job_ids)
        with self._store.read() as connection:
            large = gang_parts.large_gangs(connection, set(gangs.values()))
        steps: list[Step] = [
            *first,
            *(partial(self._stop_some, some, why, grace_s) for some in _portions(job_ids, gangs, large)),
        ]
        for gang in large:
            self._step(partial(self._end_gang, gang, why, grace_s), aside=True)
            # No member is added or placed from here on, so the live ones are all there are.
            steps += [partial(self._gangs.stop_some, gang, some) for some in self._gangs.parts(gang, asked=True)]
        for number, step in enumerate(steps, 1):
            self._step(step, aside=number < len(steps))

    def _step(self, step: Step, *, aside: bool) -> None:
        """One transaction; `aside`: more of the request follow."""
        with replay.aside() if aside else nullcontext(), self._store.write(freeing=True) as write:
            step(write)

    def _gangs_of(self, job_ids: Sequence[int]) -> dict[int, int]:
        """By job the gang it is in, of those that are in one."""
        gangs = dict[int, int]()
        with self._store.read() as connection:
            for some in _cut(job_ids):
                query = sa.select(jobs.c.id, jobs.c.gang_id).where(jobs.c.id.in_(some), jobs.c.gang_id.is_not(None))
                gangs |= {row.id: row.gang_id for row in connection.execute(query)}
        return gangs

    @staticmethod
    def _end_gang(gang: int, why: str, grace_s: int | None, write: Write) -> None:
        together.end_whole(write, gang, why, grace_s)

    def _stop_some(self, job_ids: Sequence[int], why: str, grace_s: int | None, write: Write) -> None:
        gone, asked = progress.request_stop(write, job_ids, why, grace_s)
        write.note(lambda: self._mirror.dequeue(gone))
        write.note(lambda: self._mirror.note_leaving(asked))
        write.note(lambda: self._leases.drop(gone))

    def _stop_rest(self, array: Row, why: str, write: Write) -> None:
        stop_rest(write, array.id, together.STOP_REASONS.get(why, why))
        write.note(lambda: self._mirror.dequeue([array.public_id]))

    def _stop_member(self, member: reading.Unmade, why: str, write: Write) -> None:
        """It becomes a job to be one that was stopped: its array must not start it."""
        made = make_members(write, [str(Reference(member.array.public_id, member.index))])
        ids = write.execute(sa.select(jobs.c.id).where(jobs.c.public_id.in_(made.values()))).scalars().all()
        together.stop_waiting(write, ids, why)
        write.note(lambda: self._mirror.note_made(made))

    # --- the answer ------------------------------------------------------------------------

    def _stopped(
        self,
        named: str,
        rows: Sequence[Row],
        array: Row | None,
        member: reading.Unmade | None,
        principal: Principal,
    ) -> list[JobOut]:
        found = list[JobOut]()
        with self._store.read() as connection:
            for some in _cut([row.id for row in rows]):
                query = job_view.JOB.where(jobs.c.id.in_(some)).order_by(jobs.c.id)
                found += job_view.describe(connection, connection.execute(query).all(), self._why)
            if member is not None:
                row = reading.find(connection, principal, named)
                found.append(job_view.one(connection, row.id, self._why))
            if array is not None:
                row = view.find_array(connection, arrays.c.id == array.id, array.public_id)
                if row is not None and row.size > row.made:  # else its last members have become jobs meanwhile
                    found.append(view.waiting_rest(row, self._why))
        return found

    def _ended(self, named: str, principal: Principal) -> WrongState:
        with self._store.read() as connection:
            try:
                found = reading.look_up(connection, principal, named)
            except NotOneJob as error:
                return WrongState(f"every job of array {named} has ended already", hint=error.hint)
        state = JobState.STOPPED if isinstance(found, reading.Unmade) else found.state
        return WrongState(f"job {found.name} is {state} already", hint="gpupool ps  shows what runs")


def check_may(rows: Sequence[Row], principal: Principal, verb: str) -> None:
    """Raises NotAllowed where one of these is somebody else's and the caller manages no tenant."""
    others = [row for row in rows if row.user_id != principal.user_id]
    if others and not principal.may(Permission.MANAGE_TENANT):
        raise NotAllowed(
            f"job {others[0].name} belongs to somebody else", hint=f"its user or a tenant-admin can {verb} it"
        )


def live_jobs(connection: sa.Connection, public_ids: Sequence[str]) -> list[int]:
    """The keys of those of them that have not ended."""
    query = sa.select(jobs.c.id).where(jobs.c.public_id.in_(public_ids), jobs.c.state.in_(LIVE))
    return list(connection.execute(query).scalars())


def _meant(connection: sa.Connection, principal: Principal, named: str) -> str:
    """`last` as the id of what it is."""
    if named != "last":
        return named
    try:
        return str(reading.find(connection, principal, named).public_id)
    except NotOneJob as error:
        return str(error.details["array"])


def _targets(
    connection: sa.Connection, principal: Principal, named: str
) -> tuple[Sequence[Row], Row | None, reading.Unmade | None]:
    """Live jobs, an array with a rest, a member of an array that is no job yet: what of these the name means."""
    try:
        rows, array = reading.find_all_live(connection, principal, named)
    except NotFound:
        found = reading.look_up(connection, principal, named)
        if not isinstance(found, reading.Unmade):  # by its reference from before it was a job
            return [found] if found.state in LIVE else [], None, None
        return (), None, reading.find_unmade(connection, principal, named)
    return rows, array, None if rows or array else reading.find_unmade(connection, principal, named)


def _portions(job_ids: Sequence[int], gangs: Mapping[int, int], large: Collection[int]) -> Iterator[list[int]]:
    """So many at once; of a gang one, which stands for all its members. Those of `large` gangs are left out."""
    seen = set[int](large)
    for job in job_ids:
        gang = gangs.get(job)
        if gang is not None and gang not in seen:
            seen.add(gang)
            yield [job]
    yield from _cut([job for job in job_ids if job not in gangs])


def _cut(ids: Sequence[int]) -> Iterator[list[int]]:
    for first in range(0, len(ids), JOBS_AT_ONCE):
        yield list(ids[first : first + JOBS_AT_ONCE])
