"""Reads the waiting jobs from the ledger: single jobs, whole gangs, and the rests of arrays.

A gang waits for cards only when all its members are written and none of them still leaves its
seats, so that it never starts by halves. A gang that is to end does not wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.rest import ArrayRest, read_rests
from gpupool.allocations.cache.start_waits import StartWait
from gpupool.allocations.store.dependency_table import read_waits
from gpupool.allocations.store.gangs import build_gang, read_shape
from gpupool.allocations.store.tables import HAS_REST, IS_LIVE, arrays, claims, gangs, jobs
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.job import JobState
from gpupool.scheduling import ClassKey
from gpupool.tenancy.tables import projects, tenants


@dataclass(frozen=True)
class QueueEntry:
    """A job that waits, or the rest of an array."""

    job: str
    key: ClassKey
    submitted_ns: int
    gang: Gang | None = None
    user_id: int = 0
    #: The members of an array without a row; `job` is then the array's id.
    rest: ArrayRest | None = None
    #: Name of the project that pays for it.
    project: str = ""
    #: Generation of a plan that is about it although it was not in the queue; None: of no plan.
    planned: int | None = None
    #: Why it may not start yet; None: it may.
    wait: StartWait | None = None


#: Estimates the seconds that a job of a tenant, a name and a shape runs, given its limit.
RuntimeEstimate = Callable[[str, str, Shape, int | None], int | None]


def use_limit(_tenant: str, _name: str, _shape: Shape, limit: int | None) -> int | None:
    """Return the limit as the estimate, where no statistics are at hand."""
    return limit


_PENDING = (
    sa.select(
        jobs.c.public_id.label("job"),
        jobs.c.name,
        jobs.c.array_name,
        jobs.c.gang_id,
        jobs.c.attempt,
        jobs.c.not_before_ns,
        claims,
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(projects, projects.c.id == jobs.c.project_id)
    # `IS_LIVE` says nothing new: it makes SQLite use the partial index on live jobs.
    .where(jobs.c.state == "pending", IS_LIVE)
    .order_by(jobs.c.claim_id, jobs.c.id)
)
_RESTS = (
    sa.select(
        arrays.c.id.label("array_id"),
        arrays.c.public_id.label("array"),
        arrays.c.name,
        arrays.c.size,
        arrays.c.next_index,
        claims,
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
    )
    .join(claims, claims.c.id == arrays.c.claim_id)
    .join(tenants, tenants.c.id == arrays.c.tenant_id)
    .join(projects, projects.c.id == arrays.c.project_id)
    .where(HAS_REST)
    .order_by(claims.c.id)
)
_MEMBERS = (
    sa.select(
        jobs.c.public_id.label("job"),
        jobs.c.gang_id,
        jobs.c.gang_role,
        jobs.c.state,
        jobs.c.stop_requested,
        gangs.c.public_id.label("gang"),
        gangs.c.spec,
        claims,
    )
    .join(gangs, gangs.c.id == jobs.c.gang_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .where(
        jobs.c.gang_id.in_(sa.bindparam("gangs", expanding=True)),
        gangs.c.missing == 0,
        gangs.c.ending.is_(None),
    )
    .order_by(jobs.c.gang_id, jobs.c.gang_rank)
)


def read_waiting_jobs(
    connection: sa.Connection,
    only: Collection[str] | None = None,
    seconds: RuntimeEstimate = use_limit,
) -> list[QueueEntry]:
    """Read every waiting job, or those in `only` with the waiting members of their gangs."""
    return [entry for _, entry in _read_entries_by_claim(connection, only, seconds)]


def _read_entries_by_claim(
    connection: sa.Connection, only: Collection[str] | None, seconds: RuntimeEstimate
) -> list[tuple[int, QueueEntry]]:
    """Read the entries with the row ids of their claims, by which submissions are ordered."""
    query = _PENDING
    if only is not None:
        theirs = sa.select(jobs.c.gang_id).where(
            jobs.c.public_id.in_(only), jobs.c.gang_id.is_not(None)
        )
        query = query.where(sa.or_(jobs.c.public_id.in_(only), jobs.c.gang_id.in_(theirs)))
    rows = connection.execute(query).all()
    gang_ids = {row.gang_id for row in rows if row.gang_id is not None}
    complete = read_gangs(connection, gang_ids)
    waits = read_waits(connection, None if only is None else {row.id for row in rows})
    entries = list[tuple[int, QueueEntry]]()
    for row in rows:
        if row.gang_id is None or row.gang_id in complete:
            entry = _build_entry(row, complete.get(row.gang_id), seconds)
            wait = _find_wait(waits, row.id) or _find_pause(row)
            entries.append((row.id, replace(entry, wait=wait)))
    return entries


def _find_pause(row: Any) -> StartWait | None:
    """Find the pause before the next attempt of a job; one that is over ends with the next look."""
    if row.not_before_ns is None:
        return None
    number = f"attempt {row.attempt} of {row.retries + 1}"
    return StartWait(f"{number} starts", row.not_before_ns)


def _find_wait(waits: Mapping[int, str], claim_id: int) -> StartWait | None:
    sentence = waits.get(claim_id)
    return None if sentence is None else StartWait(sentence)


def _build_entry(row: Any, gang: Gang | None, seconds: RuntimeEstimate) -> QueueEntry:
    shape = next(gang.root.iterate_roles()).shape if gang else read_shape(row)
    name = gang.id if gang else ""
    length = seconds(row.tenant, row.array_name or row.name, shape, row.max_seconds)
    guessed = row.max_seconds is None and length is not None
    key = ClassKey(
        row.tenant, row.priority, shape, length, name, row.reservation, row.preemptible, guessed
    )
    return QueueEntry(row.job, key, row.submitted_ns, gang, row.user_id, project=row.project)


def read_queue(connection: sa.Connection, seconds: RuntimeEstimate = use_limit) -> list[QueueEntry]:
    """Read all waiting jobs and rests of arrays, in the order of their submission."""
    found = [*_read_entries_by_claim(connection, None, seconds), *_read_rests(connection, seconds)]
    # The sort is stable: members that wait again stay before the rest of their array, which has the
    # same claim.
    found.sort(key=lambda numbered: numbered[0])
    return [entry for _, entry in found]


def _read_rests(
    connection: sa.Connection, seconds: RuntimeEstimate
) -> list[tuple[int, QueueEntry]]:
    rows = connection.execute(_RESTS).all()
    rests = read_rests(connection, rows)
    waits = read_waits(connection) if rows else {}
    entries = list[tuple[int, QueueEntry]]()
    for row in rows:
        entry = _build_rest_entry(row, rests[row.array_id], seconds)
        entries.append((row.id, replace(entry, wait=_find_wait(waits, row.id))))
    return entries


def _build_rest_entry(row: Any, rest: ArrayRest, seconds: RuntimeEstimate) -> QueueEntry:
    shape = read_shape(row)
    length = seconds(row.tenant, row.name, shape, row.max_seconds)
    guessed = row.max_seconds is None and length is not None
    key = ClassKey(
        row.tenant, row.priority, shape, length, "", row.reservation, row.preemptible, guessed
    )
    return QueueEntry(
        row.array, key, row.submitted_ns, None, row.user_id, rest, project=row.project
    )


def read_gangs(connection: sa.Connection, ids: Collection[int]) -> dict[int, Gang]:
    """Read those of the gangs that can be placed, by row id.

    A gang that is to end, has members to be written, or has a member that still leaves its seats is
    left out.
    """
    if not ids:
        return {}
    members_of: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(_MEMBERS, {"gangs": list(ids)}):
        members_of[row.gang_id].append(row)
    gangs_by_id = dict[int, Gang]()
    for gang_id, members in members_of.items():
        if not _is_returning(members):
            gangs_by_id[gang_id] = _build_gang(members)
    return gangs_by_id


def _build_gang(members: list[Any]) -> Gang:
    # One shape for each role, not for each of up to 10,000 members.
    shapes = dict[str, Shape]()
    for row in members:
        if row.gang_role not in shapes:
            shapes[row.gang_role] = read_shape(row)
    return build_gang(members[0].gang, members[0].spec, [row.job for row in members], shapes)


def _is_returning(members: Iterable[Any]) -> bool:
    holding = (JobState.STARTING, JobState.RUNNING)
    return any(row.state in holding and row.stop_requested is not None for row in members)
