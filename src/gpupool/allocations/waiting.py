"""Which jobs wait, read from the ledger: one by one, and gangs as a whole.

A gang of which a member is still being sent back waits for that member first: it must not start by halves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.gangs import gang_of, shape_of
from gpupool.allocations.tables import IS_LIVE, claims, gangs, jobs
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.job import JobState
from gpupool.scheduling.snapshot import ClassKey
from gpupool.tenancy.tables import tenants


@dataclass(frozen=True)
class Queued:
    """A job that waits."""

    job: str
    key: ClassKey
    submitted_ns: int
    gang: Gang | None = None


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
    .order_by(jobs.c.id)
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
    .where(jobs.c.gang_id.in_(sa.bindparam("gangs", expanding=True)))
    .order_by(jobs.c.gang_id, jobs.c.gang_rank)
)


def read_waiting(
    connection: sa.Connection, only: Collection[str] | None = None, seconds: Seconds = by_limit
) -> list[Queued]:
    """Every job that waits; or those named, with all that waits of their gangs."""
    query = _PENDING
    if only is not None:
        theirs = sa.select(jobs.c.gang_id).where(jobs.c.public_id.in_(only), jobs.c.gang_id.is_not(None))
        query = query.where(sa.or_(jobs.c.public_id.in_(only), jobs.c.gang_id.in_(theirs)))
    rows = connection.execute(query).all()
    ids = {row.gang_id for row in rows if row.gang_id is not None}
    known = read_gangs(connection, ids)
    return [
        _queued(row, known.get(row.gang_id), seconds) for row in rows if row.gang_id is None or row.gang_id in known
    ]


def _queued(row: Any, gang: Gang | None, seconds: Seconds) -> Queued:
    shape = next(gang.root.roles()).shape if gang else shape_of(row)
    name = gang.id if gang else ""
    length = seconds(row.tenant, row.array_name or row.name, shape, row.max_seconds)
    key = ClassKey(row.tenant, row.priority, shape, length, name, row.reservation, row.preemptible)
    return Queued(row.job, key, row.submitted_ns, gang)


def read_gangs(connection: sa.Connection, ids: Collection[int]) -> dict[int, Gang]:
    """Gangs by their row's number, but for those of which a member still has to come back."""
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
