"""Resizes a running job on the cards it has, at once or not at all.

The size is checked and written in one transaction on the rows themselves, not on the cache: the
caller wants an answer now. The caller names what is held for others and pauses placement meanwhile.
A resize never moves a job and never waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.resizes import SeatResize, resize_allocation
from gpupool.allocations.lifecycle.resize_checks import (
    check_card,
    check_kind,
    check_quota,
    check_runs,
)
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import allocations, claims, jobs, seats
from gpupool.base.errors import (
    BadFraction,
    BadInput,
    BadQuantity,
)
from gpupool.base.units import MIB, WHOLE, format_mib
from gpupool.fleet.tables import devices, nodes
from gpupool.metering.service import MeteringService
from gpupool.model.allocation import AllocationState
from gpupool.store.database import WriteTransaction
from gpupool.wire.jobs import JobOut

Row = sa.Row[Any]

_HELD = (
    sa.select(
        jobs.c.public_id,
        jobs.c.name,
        jobs.c.state,
        jobs.c.stop_requested,
        jobs.c.tenant_id,
        claims.c.sharing,
        claims.c.gpu_milli.label("claim_milli"),
        claims.c.memory_bytes.label("claim_bytes"),
        claims.c.idle_seconds,
        allocations.c.id.label("allocation_id"),
        allocations.c.state.label("allocation_state"),
        allocations.c.applied_generation,
        allocations.c.generation,
        suspensions.c.state.label("suspension"),
        nodes.c.agent,
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .outerjoin(
        allocations,
        sa.and_(
            allocations.c.job_id == jobs.c.id,
            allocations.c.state != sa.literal_column("'released'"),
        ),
    )
    .outerjoin(nodes, nodes.c.id == allocations.c.node_id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .where(jobs.c.id == sa.bindparam("job"))
)
READ_SEATS = (
    sa.select(
        devices.c.uuid,
        seats.c.device_id,
        seats.c.gpu_milli,
        seats.c.memory_bytes,
        seats.c.profile,
        devices.c.idx,
        devices.c.state,
        devices.c.health,
        devices.c.used_milli,
        devices.c.used_bytes,
        devices.c.memory_bytes.label("card_bytes"),
        nodes.c.name.label("node"),
    )
    .join(devices, devices.c.id == seats.c.device_id)
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(seats.c.allocation_id == sa.bindparam("allocation"))
    .order_by(devices.c.idx)
)


@dataclass(frozen=True)
class RequestedSize:
    """The requested size per card; None leaves that part as it is."""

    gpu_milli: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class ResizeResult:
    """What a resize did. `generation` is what the node has to apply."""

    granted: LedgerChange
    changed: bool
    generation: int
    milli_before: int
    bytes_before: int


def check_requested_size(gpu_milli: int | None, memory_bytes: int | None) -> RequestedSize:
    """Return the size if it makes sense for some card, with memory rounded up to MiB.

    Raises:
        BadInput: It makes sense for no card.
    """
    if gpu_milli is None and memory_bytes is None:
        raise BadInput(
            "a resize needs a new share of the compute, of the memory, or both",
            hint="--gpu 0.3 --memory 8GiB",
        )
    if gpu_milli is not None and not 1 <= gpu_milli <= WHOLE:
        # A milli-device is the smallest unit that is metered.
        raise BadFraction(
            f"{gpu_milli / WHOLE:g} of a card per card cannot be given",
            hint="per card ask for 0.001 to 1",
        )
    if memory_bytes is not None and memory_bytes < 1:
        raise BadQuantity(
            f"{memory_bytes} bytes of memory is nothing", hint="ask for at least 1MiB"
        )
    return RequestedSize(gpu_milli, None if memory_bytes is None else -(-memory_bytes // MIB) * MIB)


def resize_job(
    write: WriteTransaction,
    metering: MeteringService,
    job_id: int,
    wanted: RequestedSize,
    beside: JobResizeHeadroom,
) -> ResizeResult:
    """Write another size of a running job. Idempotent: the size it has changes nothing.

    Args:
        write: The transaction; the caller commits it.
        metering: Splits the intervals of the seats.
        job_id: Row id.
        wanted: The new size.
        beside: What is held for others.

    Raises:
        WrongState: The job does not run.
        RequestRejection: The cards or the quotas have too little; nothing is written.
    """
    job = write.execute(_HELD, {"job": job_id}).one()
    check_runs(job)
    taken = write.execute(READ_SEATS, {"allocation": job.allocation_id}).all()
    check_kind(job, taken, wanted.gpu_milli)
    changes = [_build_change(seat, wanted) for seat in taken]
    # All seats of a claim have the same size.
    before = (taken[0].gpu_milli, taken[0].memory_bytes)
    if not any(map(_is_change, changes)):
        return ResizeResult(LedgerChange(), False, job.generation, *before)
    for seat, change in zip(taken, changes, strict=True):
        check_card(job, taken, seat, change, beside)
    check_quota(job, taken, changes, beside)
    granted = resize_allocation(
        write, metering, job.public_id, job.allocation_id, job.tenant_id, changes
    )
    _announce_resize(write, job_id, job, changes, before)
    return ResizeResult(granted, True, write.touch_ledger(), *before)


def _announce_resize(
    write: WriteTransaction,
    job_id: int,
    job: Row,
    changes: Sequence[SeatResize],
    before: tuple[int, int],
) -> None:
    write.execute(jobs.update().where(jobs.c.id == job_id).values(generation=jobs.c.generation + 1))
    size = {"gpu_milli": changes[0].milli, "memory_bytes": changes[0].size}
    was = {"gpu_milli": before[0], "memory_bytes": before[1]}
    data = {"name": job.name, "size": size, "before": was, "cards": len(changes)}
    write.event("job.resized", job.public_id, tenant_id=job.tenant_id, data=data)
    write.announce(("job", job.public_id), ("node", job.agent))


def _is_change(change: SeatResize) -> bool:
    before = (change.milli_before, change.size_before)
    return (change.milli, change.size) != before


def _build_change(seat: Row, wanted: RequestedSize) -> SeatResize:
    milli = seat.gpu_milli if wanted.gpu_milli is None else wanted.gpu_milli
    size = seat.memory_bytes if wanted.memory_bytes is None else wanted.memory_bytes
    return SeatResize(seat.device_id, milli, size, seat.gpu_milli, seat.memory_bytes)


def is_resize_applied(connection: sa.Connection, public_id: str) -> bool:
    """Return whether the node applied the current generation, or the job holds nothing."""
    held = sa.and_(jobs.c.public_id == public_id, allocations.c.state != AllocationState.RELEASED)
    query = sa.select(allocations.c.generation, allocations.c.applied_generation)
    row = connection.execute(
        query.join(jobs, jobs.c.id == allocations.c.job_id).where(held)
    ).one_or_none()
    return row is None or row.applied_generation == row.generation


def describe_resize_effect(job: JobOut, bytes_before: int, used: int | None) -> str:
    """Return a note for the user about the effect of a resize; empty if there is none."""
    memory = job.memory_bytes or 0
    if used is not None and used > memory:
        return (
            f"{format_mib(used)} are in use, {format_mib(used - memory)} more than it now has: "
            "what it holds stays, it gets nothing more until it has given that back"
        )
    if job.fence == "none":
        return (
            "nothing enforces it (fence: none): the pool counts it, "
            "and the job reads it in its share file"
        )
    # Without a sample it is not known whether the job holds more than the new limit.
    if memory < bytes_before and used is None:
        return (
            "what it may hold beyond that stays; it gets nothing more until it has given that back"
        )
    return ""
