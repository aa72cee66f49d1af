"""Refuses resizes that the job's state, its cards or the quotas do not allow.

Rows are those of `resize`. Each check raises the error with its numbers and a hint, and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.resizes import SeatResize
from gpupool.allocations.lifecycle.resize_headroom import CardHolds, JobResizeHeadroom
from gpupool.base.errors import (
    BeyondQuota,
    LargerThanAnyCard,
    NoRoomNow,
    RequestRejection,
    WrongState,
)
from gpupool.base.units import MIB, WHOLE, format_gpu, format_mib, format_share
from gpupool.fleet.views import device_name
from gpupool.model.allocation import AllocationState
from gpupool.model.claim import SharingKind
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.model.job import JobState
from gpupool.model.quota import ResourceAmount
from gpupool.model.suspension import AWAY

Row = sa.Row[Any]


def check_runs(job: Row) -> None:
    """Raise WrongState unless the job runs under limits that its node has applied."""
    if job.state == JobState.PENDING:
        raise WrongState(
            f"job {job.name} waits and holds nothing yet",
            hint=f"gpupool stop {job.name}, then submit it with the other size",
        )
    if job.state != JobState.RUNNING or job.applied_generation is None:
        more = (
            "try again in a moment"
            if job.state == JobState.STARTING
            else "gpupool ps  shows what runs"
        )
        raise WrongState(
            f"job {job.name} is {job.state}: only a running job can be resized", hint=more
        )
    if job.suspension in AWAY:
        raise WrongState(
            f"job {job.name} is {job.suspension}: only a job on its cards can be resized",
            hint=f"gpupool resume {job.name}",
        )
    if job.stop_requested is not None or job.allocation_state == AllocationState.RELEASING:
        raise WrongState(f"job {job.name} is being stopped", hint="gpupool ps  shows what runs")


def check_kind(job: Row, taken: Sequence[Row], gpu_milli: int | None) -> None:
    """Raise RequestRejection for a job that has no limit which could be changed.

    Args:
        job: The row of the job.
        taken: The rows of its seats.
        gpu_milli: The requested compute per card; None if it stays.
    """
    if not taken:
        raise RequestRejection(
            f"job {job.name} has no card, so it has no share that could be resized",
            hint=f"gpupool show {job.name}  says what it holds of its node",
        )
    sharing = SharingKind(job.sharing)
    if not sharing.promises_compute and gpu_milli is not None:
        raise RequestRejection(
            f"job {job.name} is {sharing.unpromised_text}: it holds no compute that could be resized",
            hint=f"gpupool resize {job.name} --memory SIZE  changes its memory",
        )
    if taken[0].profile is not None:
        raise RequestRejection(
            f"job {job.name} has a partition ({taken[0].profile}) of {name_card(taken[0])}: "
            "its size is its profile's",
            hint=f"gpupool stop {job.name}, then submit it with another --profile",
        )
    whole = [seat for seat in taken if _is_whole(job, seat)]
    if whole:
        raise RequestRejection(
            f"job {job.name} has {name_card(whole[0])} whole: "
            "no fence runs in it, so nothing in it could be limited",
            hint="stop it, and submit it with a share of the card, e.g. --gpu 0.9",
        )


def _is_whole(job: Row, seat: Row) -> bool:
    # As the node judged it when it chose a mechanism: in whole MiB, because a card's memory is
    # rarely a multiple of one. A share that has grown to all of its card keeps its fence.
    card_mib = seat.card_bytes // MIB
    asked_mib = card_mib if job.claim_bytes is None else job.claim_bytes // MIB
    is_asked = job.claim_milli == WHOLE and asked_mib == card_mib
    all_of_it = seat.gpu_milli == WHOLE and seat.memory_bytes // MIB == card_mib
    return bool(is_asked and all_of_it and SharingKind(job.sharing).promises_compute)


def check_card(
    job: Row, taken: Sequence[Row], seat: Row, change: SeatResize, beside: JobResizeHeadroom
) -> None:
    """Raise a rejection with its numbers if a card cannot give the growth of its seat."""
    if change.size > seat.card_bytes:
        raise LargerThanAnyCard(
            f"{name_card(seat)} has {format_mib(seat.card_bytes)}, not {format_mib(change.size)}",
            hint=_suggest_size(job, taken, beside),
        )
    if job.idle_seconds is not None and change.size > change.size_before:
        raise RequestRejection(
            f"job {job.name} may be suspended while idle, and main memory is reserved for the "
            f"{format_mib(change.size_before)} that it has on {name_card(seat)}",
            hint=f"gpupool stop {job.name}, then submit it with another --memory",
        )
    # What shrinks frees something, also on a card that is draining or full.
    if change.milli <= change.milli_before and change.size <= change.size_before:
        return
    if seat.state != DeviceState.ADOPTED or seat.health == DeviceHealth.FAILED:
        what = "not healthy" if seat.health == DeviceHealth.FAILED else str(seat.state)
        raise RequestRejection(
            f"{name_card(seat)} is {what}: a share on it can only shrink",
            hint="gpupool gpus  shows why",
        )
    kept = beside.find_holds(job.public_id, seat.uuid)
    lacking = list_shortages(seat, change, kept)
    if lacking:
        parts = [
            f"{name_card(seat)} has {' and '.join(lacking)}",
            f"job {job.name} holds {format_share(seat.gpu_milli, seat.memory_bytes)} of it",
        ]
        if kept.holder:
            parts.append(kept.holder)
        raise NoRoomNow("; ".join(parts), hint=_suggest_size(job, taken, beside))


def list_shortages(seat: Row, change: SeatResize, kept: CardHolds) -> list[str]:
    """List what the card has too little of, each in numbers."""
    more_milli = change.milli - change.milli_before
    more_bytes = change.size - change.size_before
    free_milli = WHOLE - seat.used_milli - kept.milli
    free_bytes = seat.card_bytes - seat.used_bytes - kept.memory_bytes
    found = []
    if more_milli > free_milli:
        found.append(
            f"{format_gpu(free_milli)} GPU free where {format_gpu(more_milli)} more would be needed"
        )
    if more_bytes > free_bytes:
        found.append(
            f"{format_mib(free_bytes)} free where {format_mib(more_bytes)} more would be needed"
        )
    return found


def _suggest_size(job: Row, taken: Sequence[Row], beside: JobResizeHeadroom) -> str:
    """Suggest the largest size that the job's cards and the quotas have room for now."""
    quota = beside.find_quota_room(job.public_id)
    milli = list[int]()
    size = list[int]()
    # All seats get one size, so the card with the least room decides.
    for seat in taken:
        kept = beside.find_holds(job.public_id, seat.uuid)
        milli.append(WHOLE - seat.used_milli - kept.milli + seat.gpu_milli)
        size.append(seat.card_bytes - seat.used_bytes - kept.memory_bytes + seat.memory_bytes)
        if quota.milli is not None:
            milli.append(seat.gpu_milli + quota.milli)
        if quota.size is not None:
            size.append(seat.memory_bytes + quota.size)
    held = SharingKind(job.sharing).promises_compute
    gpu = f"--gpu {min(milli) / WHOLE:g} " if held else ""
    return (
        f"the most it could have now: gpupool resize {job.name} {gpu}--memory {min(size) // MIB}MiB"
    )


def check_quota(
    job: Row, taken: Sequence[Row], changes: Sequence[SeatResize], beside: JobResizeHeadroom
) -> None:
    """Raise BeyondQuota if the quotas have too little for the growth of all seats together."""
    growth = dict[str, ResourceAmount]()
    grows = False
    for seat, change in zip(taken, changes, strict=True):
        milli = change.milli - change.milli_before
        size = change.size - change.size_before
        growth[seat.uuid] = ResourceAmount(milli, size)
        grows = grows or milli > 0 or size > 0
    # A tenant above its quota may always shrink.
    if not grows:
        return
    rejection = beside.explain_quota_shortage(job.public_id, growth)
    if rejection is not None:
        suggestion = _suggest_size(job, taken, beside)
        raise BeyondQuota(rejection.sentence, hint=f"{rejection.hint}; {suggestion}")


def name_card(seat: Row) -> str:
    return device_name(seat.node, seat.idx)
