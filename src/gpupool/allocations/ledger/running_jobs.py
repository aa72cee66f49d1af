"""Jobs that hold seats, as rows of the ledger and as the scheduler sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.gangs import read_least_members, read_shape
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import allocations, claims, gangs, jobs, seats
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import devices, nodes
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.numa import NumaPart, read_numa_parts
from gpupool.model.partition import PartitionSlot
from gpupool.model.suspension import SuspensionState
from gpupool.scheduling import RunningJob, SuspendedJob
from gpupool.tenancy.tables import tenants

# The literal is the word of the partial index `ix_allocations_node_work`; a bound value would not
# find it.
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
        nodes.c.name.label("node"),
        suspensions.c.state.label("suspension"),
        suspensions.c.gpu_milli.label("suspended_milli"),
        suspensions.c.memory_bytes.label("suspended_bytes"),
        suspensions.c.beneficiary,
        suspensions.c.wanted_ns,
    )
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .where(allocations.c.state != sa.literal_column("'released'"))
)
_SEATS = (
    sa.select(seats, devices.c.uuid)
    .join(devices, devices.c.id == seats.c.device_id)
    .join(allocations, allocations.c.id == seats.c.allocation_id)
    .where(allocations.c.state != sa.literal_column("'released'"))
    .order_by(seats.c.allocation_id, devices.c.idx)
)


def read_piece(seat: Any) -> PartitionSlot | None:
    """Return which piece of its card a row of `seats` is; None for a share."""
    return None if seat.profile is None else PartitionSlot(seat.start, seat.size, seat.profile)


@dataclass(frozen=True)
class IdleSuspension:
    """How far a job is suspended because it was idle, and what its seats had before."""

    state: SuspensionState
    #: For which claim, or for which job that wanted to work again.
    beneficiary: str
    gpu_milli: int = 0
    memory_bytes: int = 0
    #: Since when a program of it waits to work again; 0: none does.
    wanted_ns: int = 0


@dataclass(frozen=True)
class SeatHolder:
    """One job and its seats, which name cards by uuid."""

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
    #: The name of the job's array or gang, else its own: the past runtimes are kept under it.
    name: str
    requeue: bool
    #: Whether its end was requested: its seats come back without a preemption.
    leaving: bool = False
    #: Public id of the job or gang that it was evicted for.
    leaving_for: str = ""
    #: The ledger's time of its last checkpoint.
    saved_ns: int | None = None
    numa: tuple[NumaPart, ...] = ()
    role: str = ""
    #: The members of its role that its gang needs; None outside a gang.
    least: int | None = None
    #: The name of its node.
    node: str = ""
    #: None for a job that was not suspended, or by hand.
    idle_suspension: IdleSuspension | None = None

    @property
    def gives_way_to(self) -> str:
        """The claim for which its seats are being emptied; empty if they are not."""
        suspension = self.idle_suspension
        if suspension is None or suspension.state is not SuspensionState.SUSPENDING:
            return ""
        return suspension.beneficiary

    @property
    def is_idle_suspended(self) -> bool:
        """Whether its seats are empty because it was idle."""
        suspension = self.idle_suspension
        return suspension is not None and suspension.state is SuspensionState.SUSPENDED

    def build_suspended_job(self, index: Mapping[str, int]) -> SuspendedJob | None:
        """Build the suspended job as the snapshot has it; None while one of its cards is absent.

        Args:
            index: The row of each card in the snapshot, by uuid.
        """
        assert self.idle_suspension is not None
        rows = tuple(index[seat.device] for seat in self.seats if seat.device in index)
        if len(rows) < len(self.seats):
            return None
        before = self.idle_suspension
        sizes = (before.memory_bytes,) * len(rows)
        return SuspendedJob(self.job, rows, before.gpu_milli, sizes, before.wanted_ns)

    def build_running_job(
        self, index: Mapping[str, int], nodes: Mapping[str, int], seconds: int | None
    ) -> RunningJob | None:
        """Build the job as the snapshot has it; None while its node or one of its cards is absent.

        Args:
            index: The row of each card in the snapshot, by uuid.
            nodes: The number of each node in the snapshot, by name.
            seconds: How long the job will run at most; None if unknown.
        """
        rows = [index.get(seat.device) for seat in self.seats]
        node = None if self.seats else nodes.get(self.node)
        if None in rows or (not self.seats and node is None):
            return None
        shape = self.shape
        numa = self.numa
        if self.gives_way_to:
            # Its cards come free, and its processors and main memory do not.
            shape = replace(shape, cpu_milli=0, host_bytes=0)
            numa = ()
        return RunningJob(
            self.job,
            self.tenant,
            self.priority,
            tuple(row for row in rows if row is not None),
            tuple(seat.gpu_milli for seat in self.seats),
            tuple(seat.memory_bytes for seat in self.seats),
            shape,
            self.granted_ns,
            ends_ns=None if seconds is None else self.granted_ns + seconds * NANOS_PER_SECOND,
            saved_ns=self.saved_ns,
            preemptible=self.preemptible and self._can_be_evicted(),
            gang=self.gang,
            reservation=self.reservation,
            # A job that leaves without a beneficiary names itself: its seats count as coming free
            # for every claim, so that no plan evicts another job for them.
            beneficiary=self.leaving_for or self.gives_way_to or (self.job if self.leaving else ""),
            numa=numa,
            slots=tuple(seat.partition for seat in self.seats if seat.partition is not None),
            guessed=self.max_seconds is None and seconds is not None,
            role=self.role,
            role_minimum=self.least,
            node=node,
        )

    def _can_be_evicted(self) -> bool:
        """Whether its end would free anything that does not come free anyway."""
        if self.leaving or self.gives_way_to:
            return False
        return any(seat.gpu_milli or seat.memory_bytes for seat in self.seats)


def read_shapes(rows: Iterable[Any]) -> dict[int, Shape]:
    """Read the shape of each claim once: a gang has as many claims as roles.

    Args:
        rows: Rows with the columns of `claims`.
    """
    found = dict[int, Shape]()
    for row in rows:
        if row.id not in found:
            found[row.id] = read_shape(row)
    return found


def _read_idle_suspension(row: Any) -> IdleSuspension | None:
    if row.suspension is None or row.beneficiary is None:
        return None
    return IdleSuspension(
        SuspensionState(row.suspension),
        row.beneficiary,
        row.suspended_milli or 0,
        row.suspended_bytes or 0,
        row.wanted_ns or 0,
    )


def build_holder(
    row: Any,
    shape: Shape,
    taken: tuple[Seat, ...],
    granted_ns: int,
    numa: tuple[NumaPart, ...],
    node: str,
) -> SeatHolder:
    """Build a holder from a row of its claim, with the names of job, tenant and gang."""
    least = None
    if row.gang_role:
        least = read_least_members(row.spec)[row.gang_role]
    return SeatHolder(
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
        least,
        node,
    )


def read_holders(
    connection: sa.Connection, only: Collection[str] | None = None
) -> list[SeatHolder]:
    """Read every job that holds seats now, or those in `only`."""
    # Two queries instead of one join: a gang's spec would be repeated for each of its seats.
    query = _HELD
    taken = _SEATS
    if only is not None:
        query = query.where(jobs.c.public_id.in_(only))
        taken = taken.join(jobs, jobs.c.id == allocations.c.job_id).where(
            jobs.c.public_id.in_(only)
        )
    found: dict[int, list[Seat]] = defaultdict(list)
    for seat in connection.execute(taken):
        found[seat.allocation_id].append(
            Seat(seat.uuid, seat.gpu_milli, seat.memory_bytes, read_piece(seat))
        )
    rows = connection.execute(query).all()
    shapes = read_shapes(rows)
    holders = list[SeatHolder]()
    for row in rows:
        seats_of_job = tuple(found[row.allocation])
        numa = read_numa_parts(row.numa)
        holder = build_holder(row, shapes[row.id], seats_of_job, row.granted_ns, numa, row.node)
        holders.append(replace(holder, idle_suspension=_read_idle_suspension(row)))
    return holders
