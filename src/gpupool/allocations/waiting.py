"""Which jobs wait, read from the ledger: one by one, gangs as a whole, and the rests of arrays.

A gang of which a member is still being sent back waits for that member first: it must not start by halves. One of
which members are still to be written, or which is to end, does not wait for cards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.rest import Rest, rests_of
from gpupool.allocations.gangs import gang_of, shape_of
from gpupool.allocations.tables import HAS_REST, IS_LIVE, arrays, claims, gangs, jobs
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.job import JobState
from gpupool.scheduling.snapshot import ClassKey
from gpupool.tenancy.tables import tenants


@dataclass(frozen=True)
class Queued:
    """A job that waits, or the rest of an array."""

    job: str
    key: ClassKey
    submitted_ns: int
    gang: Gang | None = None
    user_id: int = 0
    rest: Rest | None = None
    """Of an array, whose id `job` is then: all its members that are no jobs yet."""


Seconds = Callable[[str, str, Shape, int | None], int | None]
"""How long a job of that tenant, name and shape will run at most, given its limit."""


def by_limit(_tenant: str, _name: str, _shape: Shape, limit: int | None) -> int | None:
    """Where nothing is learnt."""
    return limit


_PENDING = (
    sa.select(
        jobs.c.public_id.label("job"),
        jobs.c.name,
        jobs.c.array_name,
        jobs.c.gang_id,
        claims,
        tenants.c.name.label("tenant"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
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
    )
    .join(claims, claims.c.id == arrays.c.claim_id)
    .join(tenants, tenants.c.id == arrays.c.tenant_id)
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


def read_waiting(
    connection: sa.Connection, only: Collection[str] | None = None, seconds: Seconds = by_limit
) -> list[Queued]:
    """Every job that waits; or those named, with all that waits of their gangs."""
    return [queued for _, queued in _read_waiting(connection, only, seconds)]


def _read_waiting(
    connection: sa.Connection, only: Collection[str] | None, seconds: Seconds
) -> list[tuple[int, Queued]]:
    """With the number of the claim of each."""
    query = _PENDING
    if only is not None:
        theirs = sa.select(jobs.c.gang_id).where(jobs.c.public_id.in_(only), jobs.c.gang_id.is_not(None))
        query = query.where(sa.or_(jobs.c.public_id.in_(only), jobs.c.gang_id.in_(theirs)))
    rows = connection.execute(query).all()
    ids = {row.gang_id for row in rows if row.gang_id is not None}
    known = read_gangs(connection, ids)
    there = [row for row in rows if row.gang_id is None or row.gang_id in known]
    return [(row.id, _queued(row, known.get(row.gang_id), seconds)) for row in there]


def _queued(row: Any, gang: Gang | None, seconds: Seconds) -> Queued:
    shape = next(gang.root.roles()).shape if gang else shape_of(row)
    name = gang.id if gang else ""
    length = seconds(row.tenant, row.array_name or row.name, shape, row.max_seconds)
    guessed = row.max_seconds is None and length is not None
    key = ClassKey(row.tenant, row.priority, shape, length, name, row.reservation, row.preemptible, guessed)
    return Queued(row.job, key, row.submitted_ns, gang, row.user_id)


def read_queue(connection: sa.Connection, seconds: Seconds = by_limit) -> list[Queued]:
    """All that waits, the rests of arrays among it, in the order of their submissions."""
    found = [*_read_waiting(connection, None, seconds), *_read_rests(connection, seconds)]
    found.sort(key=lambda one: one[0])  # members that wait again are before the rest of their array
    return [queued for _, queued in found]


def _read_rests(connection: sa.Connection, seconds: Seconds) -> list[tuple[int, Queued]]:
    rows = connection.execute(_RESTS).all()
    rests = rests_of(connection, rows)
    return [(row.id, _queued_rest(row, rests[row.array_id], seconds)) for row in rows]


def _queued_rest(row: Any, rest: Rest, seconds: Seconds) -> Queued:
    shape = shape_of(row)
    length = seconds(row.tenant, row.name, shape, row.max_seconds)
    guessed = row.max_seconds is None and length is not None
    key = ClassKey(row.tenant, row.priority, shape, length, "", row.reservation, row.preemptible, guessed)
    return Queued(row.array, key, row.submitted_ns, None, row.user_id, rest)


def read_gangs(connection: sa.Connection, ids: Collection[int]) -> dict[int, Gang]:
    """Gangs by their row's number that can be placed: no member is missing, has to come back or is to end."""
    found: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(_MEMBERS, {"gangs": list(ids)}) if ids else ():
        found[row.gang_id].append(row)
    return {number: _gang(members) for number, members in found.items() if not _coming_back(members)}


def _gang(members: list[Any]) -> Gang:
    shapes = {row.gang_role: shape_of(row) for row in members}
    return gang_of(members[0].gang, members[0].spec, [row.job for row in members], shapes)


def _coming_back(members: Iterable[Any]) -> bool:
    holding = (JobState.STARTING, JobState.RUNNING)
    return any(row.state in holding and row.stop_requested is not None for row in members)
