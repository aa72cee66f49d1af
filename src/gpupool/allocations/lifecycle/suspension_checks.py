"""Refuses to suspend or resume a job that its state, its kind, its cards or the quotas forbid.

Rows are those of `suspension`. Each check raises the error with its numbers and the next step, and
writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.resizes import SeatResize
from gpupool.allocations.lifecycle.resize_checks import list_shortages, name_card
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.base.errors import BeyondQuota, NoRoomNow, RequestRejection, WrongState
from gpupool.base.units import format_share
from gpupool.model.allocation import AllocationState
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.model.job import JobState
from gpupool.model.quota import ResourceAmount

Row = sa.Row[Any]


def check_lives(job: Row, verb: str) -> None:
    """Raise WrongState unless the job's command has begun and goes on.

    Args:
        job: The row of the job.
        verb: "suspended" or "resumed".
    """
    if job.stop_requested is not None or job.allocation_state == AllocationState.RELEASING:
        raise WrongState(f"job {job.name} is being stopped", hint="gpupool ps  shows what runs")
    if job.state != JobState.RUNNING or job.applied_generation is None:
        starting = job.state == JobState.STARTING
        raise WrongState(
            f"job {job.name} is {job.state}: only a running job can be {verb}",
            hint="try again in a moment" if starting else "gpupool ps  shows what runs",
        )


def check_kind(job: Row, taken: Sequence[Row]) -> None:
    """Raise RequestRejection for a job that no driver can suspend. Its node checks the rest."""
    if job.gang_id is not None:
        raise RequestRejection(
            f"job {job.name} is a member of a gang: the driver cannot suspend memory that "
            "processes of several jobs share",
            hint=f"gpupool stop {job.name}  ends the gang",
        )
    if not taken:
        raise RequestRejection(
            f"job {job.name} has no card, so its suspension would free none",
            hint=f"gpupool stop {job.name}",
        )
    if taken[0].profile is not None:
        raise RequestRejection(
            f"job {job.name} has a partition ({taken[0].profile}) of {name_card(taken[0])}: "
            "the driver suspends no process there",
            hint="submit it with a share of a card, e.g. --gpu 0.3 --memory 8GiB",
        )


def check_room(
    job: Row, taken: Sequence[Row], changes: Sequence[SeatResize], beside: JobResizeHeadroom
) -> None:
    """Raise a rejection with its numbers if cards or quotas have no room for the job's seats."""
    growth = dict[str, ResourceAmount]()
    for seat, change in zip(taken, changes, strict=True):
        card = name_card(seat)
        if seat.state != DeviceState.ADOPTED or seat.health == DeviceHealth.FAILED:
            what = "not healthy" if seat.health == DeviceHealth.FAILED else str(seat.state)
            raise RequestRejection(
                f"{card} is {what}: job {job.name} stays suspended", hint="gpupool gpus  shows why"
            )
        holds = beside.find_holds(job.public_id, seat.uuid)
        lacking = list_shortages(seat, change, holds)
        if lacking:
            parts = [f"{card} has {' and '.join(lacking)}"]
            parts.append(f"job {job.name} needs {format_share(change.milli, change.size)} of it")
            if holds.holder:
                parts.append(holds.holder)
            raise NoRoomNow(
                "; ".join(parts),
                hint=f"gpupool ps  shows what runs on {card}: suspend or stop a job there",
            )
        growth[seat.uuid] = ResourceAmount(change.milli, change.size)
    rejection = beside.explain_quota_shortage(job.public_id, growth)
    if rejection is not None:
        raise BeyondQuota(rejection.sentence, hint=rejection.hint)
