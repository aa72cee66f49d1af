"""Another size for a job that runs: on the cards it has, at once or not at all.

Whether it may be is decided and written in one transaction, from the rows themselves and not
from the mirror: whoever asks wants an answer now, and a plan that could be stale is none.
What is kept for others (reservations, promised starts, jobs that move) is told by the caller, who
lets nothing be placed meanwhile. A resize moves nothing to other cards and never waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.growing import Beside, KeptHere
from gpupool.allocations.ledger import Resize, resize
from gpupool.allocations.notes import Granted
from gpupool.allocations.tables import allocations, claims, jobs, seats
from gpupool.base.errors import (
    BadFraction,
    BadInput,
    BadQuantity,
    LargerThanAnyCard,
    NoRoomNow,
    QuotaExceeded,
    Refused,
    WrongState,
)
from gpupool.base.units import MIB, WHOLE, format_gpu, format_mib, format_share
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.metering.service import Metering
from gpupool.model.allocation import AllocationState
from gpupool.model.claim import Sharing
from gpupool.model.device import DeviceState, Health
from gpupool.model.job import JobState
from gpupool.model.quota import Amount
from gpupool.store.database import Write
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
        allocations.c.id.label("allocation_id"),
        allocations.c.state.label("allocation_state"),
        allocations.c.applied_generation,
        allocations.c.generation,
        nodes.c.agent,
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .outerjoin(
        allocations,
        sa.and_(allocations.c.job_id == jobs.c.id, allocations.c.state != sa.literal_column("'released'")),
    )
    .outerjoin(nodes, nodes.c.id == allocations.c.node_id)
    .where(jobs.c.id == sa.bindparam("job"))
)
_SEATS = (
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
class Wanted:
    """The size per card that is asked for; None leaves that part as it is."""

    gpu_milli: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Done:
    """What a resize did. `generation` is the one that the node has to put in force."""

    granted: Granted
    changed: bool
    generation: int
    milli_before: int
    bytes_before: int


def check_wanted(gpu_milli: int | None, memory_bytes: int | None) -> Wanted:
    """The size, if it makes sense for some card. Memory is counted up to whole MiB. Raises BadInput's classes."""
    if gpu_milli is None and memory_bytes is None:
        raise BadInput(
            "a resize needs a new share of the compute, of the memory, or both", hint="--gpu 0.3 --memory 8GiB"
        )
    if gpu_milli is not None and not 1 <= gpu_milli <= WHOLE:
        raise BadFraction(
            f"{gpu_milli / WHOLE:g} of a card per card cannot be given", hint="per card ask for 0.001 to 1"
        )
    if memory_bytes is not None and memory_bytes < 1:
        raise BadQuantity(f"{memory_bytes} bytes of memory is nothing", hint="ask for at least 1MiB")
    return Wanted(gpu_milli, None if memory_bytes is None else -(-memory_bytes // MIB) * MIB)


def resize_job(write: Write, metering: Metering, job_id: int, wanted: Wanted, beside: Beside) -> Done:
    """Give a running job another size, beside what is kept for others. Raises WrongState, Refused's classes; then
    nothing has changed.

    Asked for the size it has, it changes nothing and that is no error: the request may come twice.
    """
    job = write.execute(_HELD, {"job": job_id}).one()
    _check_runs(job)
    taken = write.execute(_SEATS, {"allocation": job.allocation_id}).all()
    _check_kind(job, taken, wanted)
    changes = [_change(seat, wanted) for seat in taken]
    before = (taken[0].gpu_milli, taken[0].memory_bytes)
    if all((each.milli, each.size) == (each.milli_before, each.size_before) for each in changes):
        return Done(Granted(), False, job.generation, *before)
    for seat, change in zip(taken, changes, strict=True):
        _check_card(job, taken, seat, change, beside)
    _check_quota(job, taken, changes, beside)
    granted = resize(write, metering, job.public_id, job.allocation_id, job.tenant_id, changes)
    _tell(write, job_id, job, changes, before)
    return Done(granted, True, write.touch_ledger(), *before)


def _tell(write: Write, job_id: int, job: Row, changes: Sequence[Resize], before: tuple[int, int]) -> None:
    write.execute(jobs.update().where(jobs.c.id == job_id).values(generation=jobs.c.generation + 1))
    size = {"gpu_milli": changes[0].milli, "memory_bytes": changes[0].size}
    was = {"gpu_milli": before[0], "memory_bytes": before[1]}
    data = {"name": job.name, "size": size, "before": was, "cards": len(changes)}
    write.event("job.resized", job.public_id, tenant_id=job.tenant_id, data=data)
    write.announce(("job", job.public_id), ("node", job.agent))


def _change(seat: Row, wanted: Wanted) -> Resize:
    milli = seat.gpu_milli if wanted.gpu_milli is None else wanted.gpu_milli
    size = seat.memory_bytes if wanted.memory_bytes is None else wanted.memory_bytes
    return Resize(seat.device_id, milli, size, seat.gpu_milli, seat.memory_bytes)


def is_applied(connection: sa.Connection, public_id: str) -> bool:
    """Whether a job's node has said that the limits of the present generation are in force, or nothing is held."""
    held = sa.and_(jobs.c.public_id == public_id, allocations.c.state != AllocationState.RELEASED)
    query = sa.select(allocations.c.generation, allocations.c.applied_generation)
    row = connection.execute(query.join(jobs, jobs.c.id == allocations.c.job_id).where(held)).one_or_none()
    return row is None or row.applied_generation == row.generation


def resize_note(job: JobOut, bytes_before: int, used: int | None) -> str:
    """What a person should know about a resize, if anything."""
    memory = job.memory_bytes or 0
    if used is not None and used > memory:
        return (
            f"{format_mib(used)} are in use, {format_mib(used - memory)} more than it now has: what it holds stays, "
            "it gets nothing more until it has given that back"
        )
    if job.fence == "none":
        return "nothing enforces it (fence: none): the pool counts it, and the job reads it in its share file"
    if memory < bytes_before and used is None:
        return "what it may hold beyond that stays; it gets nothing more until it has given that back"
    return ""


# What is refused ---------------------------------------------------------------------------------


def _check_runs(job: Row) -> None:
    if job.state == JobState.PENDING:
        raise WrongState(
            f"job {job.name} waits and holds nothing yet",
            hint=f"gpupool stop {job.name}, then submit it with the other size",
        )
    if job.state != JobState.RUNNING or job.applied_generation is None:
        more = "try again in a moment" if job.state == JobState.STARTING else "gpupool ps  shows what runs"
        raise WrongState(f"job {job.name} is {job.state}: only a running job can be resized", hint=more)
    if job.stop_requested is not None or job.allocation_state == AllocationState.RELEASING:
        raise WrongState(f"job {job.name} is being stopped", hint="gpupool ps  shows what runs")


def _check_kind(job: Row, taken: Sequence[Row], wanted: Wanted) -> None:
    if job.sharing == Sharing.BEST_EFFORT and wanted.gpu_milli is not None:
        raise Refused(
            f"job {job.name} is best effort: it holds no compute that could be resized",
            hint=f"gpupool resize {job.name} --memory SIZE  changes its memory",
        )
    if taken[0].profile is not None:
        raise Refused(
            f"job {job.name} has a partition ({taken[0].profile}) of {_name(taken[0])}: its size is its profile's",
            hint=f"gpupool stop {job.name}, then submit it with another --profile",
        )
    whole = [seat for seat in taken if _is_whole(job, seat)]
    if whole:
        raise Refused(
            f"job {job.name} has {_name(whole[0])} whole: no fence runs in it, so nothing in it could be limited",
            hint="stop it, and submit it with a share of the card, e.g. --gpu 0.9",
        )


def _is_whole(job: Row, seat: Row) -> bool:
    """As the node judges it when it chooses a mechanism."""
    all_of_it = seat.gpu_milli == WHOLE and seat.memory_bytes // MIB == seat.card_bytes // MIB
    return bool(all_of_it and job.sharing != Sharing.BEST_EFFORT)


def _check_card(job: Row, taken: Sequence[Row], seat: Row, change: Resize, beside: Beside) -> None:
    if change.size > seat.card_bytes:
        raise LargerThanAnyCard(
            f"{_name(seat)} has {format_mib(seat.card_bytes)}, not {format_mib(change.size)}",
            hint=_nearest(job, taken, beside),
        )
    if change.milli <= change.milli_before and change.size <= change.size_before:
        return
    if seat.state != DeviceState.ADOPTED or seat.health == Health.FAILED:
        what = "not healthy" if seat.health == Health.FAILED else str(seat.state)
        raise Refused(f"{_name(seat)} is {what}: a share on it can only shrink", hint="gpupool gpus  shows why")
    kept = beside.on(job.public_id, seat.uuid)
    lacking = _lacking(seat, change, kept)
    if lacking:
        holds = f"job {job.name} holds {format_share(seat.gpu_milli, seat.memory_bytes)} of it"
        raise NoRoomNow(
            "; ".join(filter(None, (f"{_name(seat)} has {' and '.join(lacking)}", holds, kept.said))),
            hint=_nearest(job, taken, beside),
        )


def _lacking(seat: Row, change: Resize, kept: KeptHere) -> list[str]:
    """What the card has too little of, each in numbers."""
    more_milli, more_bytes = change.milli - change.milli_before, change.size - change.size_before
    free_milli, free_bytes = WHOLE - seat.used_milli - kept.milli, seat.card_bytes - seat.used_bytes - kept.memory_bytes
    found = []
    if more_milli > free_milli:
        found.append(f"{format_gpu(free_milli)} GPU free where {format_gpu(more_milli)} more would be needed")
    if more_bytes > free_bytes:
        found.append(f"{format_mib(free_bytes)} free where {format_mib(more_bytes)} more would be needed")
    return found


def _nearest(job: Row, taken: Sequence[Row], beside: Beside) -> str:
    """The largest size that its cards and the quotas have room for now."""
    kept = [beside.on(job.public_id, seat.uuid) for seat in taken]
    quota = beside.most(job.public_id)
    cards = list(zip(taken, kept, strict=True))
    milli = [WHOLE - seat.used_milli - here.milli + seat.gpu_milli for seat, here in cards]
    size = [seat.card_bytes - seat.used_bytes - here.memory_bytes + seat.memory_bytes for seat, here in cards]
    if quota.milli is not None:
        milli += [seat.gpu_milli + quota.milli for seat in taken]
    if quota.size is not None:
        size += [seat.memory_bytes + quota.size for seat in taken]
    gpu = "" if job.sharing == Sharing.BEST_EFFORT else f"--gpu {min(milli) / WHOLE:g} "
    return f"the most it could have now: gpupool resize {job.name} {gpu}--memory {min(size) // MIB}MiB"


def _check_quota(job: Row, taken: Sequence[Row], changes: Sequence[Resize], beside: Beside) -> None:
    """What grows has to find room where a placement would; what shrinks need not, also in a tenant that is over it."""
    more = {seat.uuid: _more(change) for seat, change in zip(taken, changes, strict=True)}
    if all(each.gpu_milli <= 0 and each.memory_bytes <= 0 for each in more.values()):
        return
    said = beside.beyond_quota(job.public_id, more)
    if said is not None:
        raise QuotaExceeded(said.sentence, hint=f"{said.hint}; {_nearest(job, taken, beside)}")


def _more(change: Resize) -> Amount:
    return Amount(change.milli - change.milli_before, change.size - change.size_before)


def _name(seat: Row) -> str:
    return device_name(seat.node, seat.idx)
