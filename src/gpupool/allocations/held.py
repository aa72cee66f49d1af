"""Jobs that hold seats, as the scheduler sees them: what could be given back, when, and at what price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.gangs import least_members, shape_of
from gpupool.allocations.tables import allocations, claims, gangs, jobs, seats
from gpupool.fleet.tables import devices
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.numa import NumaPart, parts_of
from gpupool.model.partition import Placement
from gpupool.scheduling.snapshot import Running
from gpupool.tenancy.tables import tenants

_NS = 10**9

_HELD = (
    sa.select(
        claims,
        jobs.c.public_id.label("job"),
        jobs.c.name,
        jobs.c.array_name,
        jobs.c.stop_requested,
        jobs.c.leaving_for,
        jobs.c.saved_ns,
        jobs.c.gang_role,
        tenants.c.name.label("tenant"),
        gangs.c.public_id.label("gang"),
        gangs.c.spec,
        allocations.c.id.label("allocation"),
        allocations.c.granted_ns,
        allocations.c.numa,
    )
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .where(allocations.c.state != sa.literal_column("'released'"))
)
_SEATS = (
    sa.select(seats, devices.c.uuid)
    .join(devices, devices.c.id == seats.c.device_id)
    .join(allocations, allocations.c.id == seats.c.allocation_id)
    .where(allocations.c.state != sa.literal_column("'released'"))
    .order_by(seats.c.allocation_id, devices.c.idx)
)


def piece_of(seat: Any) -> Placement | None:
    """Which piece of its card a row of `seats` is; None for a share."""
    return None if seat.profile is None else Placement(seat.start, seat.size, seat.profile)


@dataclass(frozen=True)
class Held:
    """One job and its seats, by the cards' own names."""

    job: str
    tenant: str
    priority: int
    seats: tuple[Seat, ...]
    shape: Shape
    granted_ns: int
    max_seconds: int | None
    preemptible: bool
    gang: str
    reservation: str | None
    name: str
    """Of an array or a gang, that one's: what its runs are remembered by."""
    requeue: bool
    leaving: bool = False
    """It was asked to end already: its seats come back by themselves."""
    leaving_for: str = ""
    saved_ns: int | None = None
    numa: tuple[NumaPart, ...] = ()
    role: str = ""
    least: int | None = None
    """So many members of its role its gang needs."""

    def running(self, index: Mapping[str, int], seconds: int | None) -> Running | None:
        """As the snapshot has it; None while one of its cards is not there. `seconds`: how long it is said to run."""
        rows = [index.get(seat.device) for seat in self.seats]
        if None in rows:
            return None
        return Running(
            self.job,
            self.tenant,
            self.priority,
            tuple(row for row in rows if row is not None),
            tuple(seat.gpu_milli for seat in self.seats),
            tuple(seat.memory_bytes for seat in self.seats),
            self.shape,
            self.granted_ns,
            ends_ns=None if seconds is None else self.granted_ns + seconds * _NS,
            saved_ns=self.saved_ns,
            preemptible=self.preemptible and not self.leaving,
            gang=self.gang,
            reservation=self.reservation,
            # who leaves for nobody frees its seats for everybody: nobody else has to leave for them
            leaving_for=self.leaving_for or (self.job if self.leaving else ""),
            numa=self.numa,
            places=tuple(seat.partition for seat in self.seats if seat.partition is not None),
            guessed=self.max_seconds is None and seconds is not None,
            role=self.role,
            least=self.least,
        )


def shapes_by_claim(rows: Iterable[Any]) -> dict[int, Shape]:
    """Of rows with the claim's columns. Made once for all jobs of a claim: a gang has as many claims as roles."""
    found = dict[int, Shape]()
    for row in rows:
        if row.id not in found:
            found[row.id] = shape_of(row)
    return found


def held_of(row: Any, shape: Shape, taken: tuple[Seat, ...], granted_ns: int, numa: tuple[NumaPart, ...]) -> Held:
    """From a row with the claim's columns, and job, tenant and gang by name; `shape` is the claim's."""
    return Held(
        row.job,
        row.tenant,
        row.priority,
        taken,
        shape,
        granted_ns,
        row.max_seconds,
        row.preemptible,
        row.gang or "",
        row.reservation,
        row.array_name or row.name,
        row.requeue,
        row.stop_requested is not None,
        row.leaving_for or "",
        row.saved_ns,
        numa,
        row.gang_role or "",
        least_members(row.spec)[row.gang_role] if row.gang_role else None,
    )


def read_held(connection: sa.Connection, only: Collection[str] | None = None) -> list[Held]:
    """Every job that holds seats now, or those of them that are named."""
    query, taken = _HELD, _SEATS
    if only is not None:
        query = query.where(jobs.c.public_id.in_(only))
        taken = taken.join(jobs, jobs.c.id == allocations.c.job_id).where(jobs.c.public_id.in_(only))
    found: dict[int, list[Seat]] = defaultdict(list)
    for seat in connection.execute(taken):
        found[seat.allocation_id].append(Seat(seat.uuid, seat.gpu_milli, seat.memory_bytes, piece_of(seat)))
    rows = connection.execute(query).all()
    shapes = shapes_by_claim(rows)
    return [
        held_of(row, shapes[row.id], tuple(found[row.allocation]), row.granted_ns, parts_of(row.numa)) for row in rows
    ]
