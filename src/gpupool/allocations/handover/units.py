"""Read what a user owns, as units that change their owner whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.cache.reservations import is_reservation_over
from gpupool.allocations.store.hold_tables import reservations
from gpupool.allocations.store.schedule_tables import schedules
from gpupool.allocations.store.tables import HAS_REST, IS_LIVE, arrays, gangs, jobs, launches
from gpupool.model.job import JobState
from gpupool.model.reservation import ReservationState
from gpupool.tenancy.tables import projects, tenants
from gpupool.wire.leavers.handover import UnitKind

Row = Any
#: A state that says more than others comes first.
_ORDER: Final = (JobState.RUNNING, JobState.STARTING, JobState.PENDING)

_JOBS = (
    sa.select(
        jobs.c.id,
        jobs.c.public_id,
        jobs.c.name,
        jobs.c.state,
        jobs.c.attached,
        jobs.c.array_id,
        jobs.c.gang_id,
        jobs.c.project_id,
        tenants.c.id.label("tenant_id"),
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
        launches.c.spec["run_as"].label("run_as"),
    )
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(projects, projects.c.id == jobs.c.project_id)
    .outerjoin(launches, launches.c.job_id == jobs.c.id)
    .order_by(jobs.c.id)
)
_ARRAYS = (
    sa.select(
        arrays.c.id,
        arrays.c.public_id,
        arrays.c.name,
        arrays.c.size,
        arrays.c.made,
        arrays.c.stopped_ns,
        arrays.c.project_id,
        tenants.c.id.label("tenant_id"),
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
        arrays.c.launch["run_as"].label("run_as"),
    )
    .join(tenants, tenants.c.id == arrays.c.tenant_id)
    .join(projects, projects.c.id == arrays.c.project_id)
    .order_by(arrays.c.id)
)
_GANGS = sa.select(
    gangs.c.id,
    gangs.c.public_id,
    gangs.c.name,
    gangs.c.missing,
    gangs.c.launch["run_as"].label("run_as"),
)


@dataclass(frozen=True)
class JobAccount:
    """The Unix account that a command runs as."""

    uid: int
    name: str


@dataclass(frozen=True)
class OwnedUnit:
    """What changes its owner in one transaction.

    Attributes:
        key: row id of the job, array, gang, schedule or reservation.
        jobs: live jobs, with the members of an array that have no row yet.
        waiting: entries that it has in the queue.
        account: of its command; None: the agent's own, or a reservation.
        run_as: of a schedule, its account as its column has it.
        lacks_account: the owner of the schedule has no Unix account any more.
        is_attached: a client's terminal holds it.
        is_incomplete: members of the gang are still being written.
    """

    kind: UnitKind
    key: int
    public_id: str
    name: str
    tenant_id: int
    tenant: str
    state: str
    project_id: int | None = None
    project: str | None = None
    jobs: int = 0
    waiting: int = 0
    account: JobAccount | None = None
    run_as: Mapping[str, Any] | None = None
    lacks_account: bool = False
    is_attached: bool = False
    is_incomplete: bool = False


def read_units(connection: sa.Connection, user_id: int, now_ns: int) -> list[OwnedUnit]:
    """Read what the user owns: live jobs by their submissions, schedules, reservations."""
    return [
        *_read_job_units(connection, user_id),
        *_read_schedules(connection, user_id),
        *_read_reservations(connection, user_id, now_ns),
    ]


def _read_job_units(connection: sa.Connection, user_id: int) -> list[OwnedUnit]:
    singles: list[OwnedUnit] = []
    of_array: dict[int, list[Row]] = defaultdict(list)
    of_gang: dict[int, list[Row]] = defaultdict(list)
    for row in connection.execute(_JOBS.where(IS_LIVE, jobs.c.user_id == user_id)):
        if row.gang_id is not None:
            of_gang[row.gang_id].append(row)
        elif row.array_id is not None:
            of_array[row.array_id].append(row)
        else:
            singles.append(_build_job(row))
    mine = sa.or_(arrays.c.id.in_(list(of_array)), sa.and_(HAS_REST, arrays.c.user_id == user_id))
    found = connection.execute(_ARRAYS.where(mine)).all()
    arrays_found = [_build_array(row, of_array[row.id]) for row in found]
    gang_rows = connection.execute(_GANGS.where(gangs.c.id.in_(list(of_gang)))).all()
    return [*singles, *arrays_found, *(_build_gang(row, of_gang[row.id]) for row in gang_rows)]


def _build_job(row: Row) -> OwnedUnit:
    return OwnedUnit(
        "job",
        row.id,
        row.public_id,
        row.name,
        row.tenant_id,
        row.tenant,
        row.state,
        row.project_id,
        row.project,
        jobs=1,
        waiting=_count_waiting([row]),
        account=read_account(row.run_as),
        is_attached=row.attached,
    )


def _build_array(row: Row, members: list[Row]) -> OwnedUnit:
    rest = 0 if row.stopped_ns is not None else row.size - row.made
    return OwnedUnit(
        "array",
        row.id,
        row.public_id,
        row.name,
        row.tenant_id,
        row.tenant,
        _choose_state(members),
        row.project_id,
        row.project,
        jobs=len(members) + rest,
        waiting=_count_waiting(members) + (1 if rest else 0),
        account=read_account(row.run_as),
    )


def _build_gang(row: Row, members: list[Row]) -> OwnedUnit:
    first = members[0]
    return OwnedUnit(
        "gang",
        row.id,
        row.public_id,
        row.name,
        first.tenant_id,
        first.tenant,
        _choose_state(members),
        first.project_id,
        first.project,
        jobs=len(members),
        waiting=_count_waiting(members),
        account=read_account(row.run_as),
        is_incomplete=row.missing > 0,
    )


def _choose_state(members: Iterable[Row]) -> str:
    states = {row.state for row in members}
    return next((str(state) for state in _ORDER if state in states), str(JobState.PENDING))


def _count_waiting(members: Iterable[Row]) -> int:
    return sum(row.state == JobState.PENDING for row in members)


def read_account(run_as: Any) -> JobAccount | None:
    """Read an account as launches and schedules have it."""
    return None if not run_as else JobAccount(run_as["uid"], run_as["name"])


def _read_schedules(connection: sa.Connection, user_id: int) -> list[OwnedUnit]:
    query = (
        sa.select(schedules, tenants.c.name.label("tenant"))
        .join(tenants, tenants.c.id == schedules.c.tenant_id)
        .where(schedules.c.user_id == user_id)
        .order_by(schedules.c.id)
    )
    return [
        OwnedUnit(
            "schedule",
            row.id,
            row.public_id,
            row.name,
            row.tenant_id,
            row.tenant,
            row.state,
            account=read_account(row.run_as),
            run_as=row.run_as,
        )
        for row in connection.execute(query)
    ]


def _read_reservations(connection: sa.Connection, user_id: int, now_ns: int) -> list[OwnedUnit]:
    query = (
        sa.select(reservations, tenants.c.name.label("tenant"))
        .join(tenants, tenants.c.id == reservations.c.tenant_id)
        .where(reservations.c.user_id == user_id, reservations.c.state != ReservationState.ENDED)
        .order_by(reservations.c.id)
    )
    found: list[OwnedUnit] = []
    for row in connection.execute(query):
        if is_reservation_over(row, now_ns):
            continue
        unit = OwnedUnit(
            "reservation", row.id, row.public_id, row.name, row.tenant_id, row.tenant, row.state
        )
        found.append(unit)
    return found
