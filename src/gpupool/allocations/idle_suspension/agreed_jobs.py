"""The running jobs that agreed to be suspended while idle, as the ledger and the samples have them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import allocations, claims, jobs, seats
from gpupool.base.units import NANOS_PER_MILLISECOND, NANOS_PER_SECOND
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.metering.samples import LatestSample
from gpupool.model.job import JobState
from gpupool.model.suspension import SuspensionState
from gpupool.scheduling import IdleJob, ReturningJob

#: An older sample says nothing of a job: its agent is away.
FRESH_NS: Final = 60 * NANOS_PER_SECOND

_AGREED = (
    sa.select(
        jobs.c.id,
        jobs.c.public_id.label("job"),
        claims.c.idle_seconds,
        suspensions.c.state.label("suspension"),
        suspensions.c.beneficiary,
        suspensions.c.since_ns,
        suspensions.c.wanted_ns,
        suspensions.c.gpu_milli.label("suspended_milli"),
        suspensions.c.memory_bytes.label("suspended_bytes"),
        seats.c.gpu_milli,
        seats.c.memory_bytes,
        devices.c.uuid,
        devices.c.idx,
        nodes.c.name.label("node"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(seats, seats.c.allocation_id == allocations.c.id)
    .join(devices, devices.c.id == seats.c.device_id)
    .join(nodes, nodes.c.id == devices.c.node_id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .where(
        # Word for word the condition of the partial index on held allocations, so that it is used.
        allocations.c.state != sa.literal_column("'released'"),
        claims.c.idle_seconds.is_not(None),
        jobs.c.state == JobState.RUNNING,
        jobs.c.stop_requested.is_(None),
    )
    .order_by(jobs.c.id)
)


@dataclass(frozen=True)
class AgreedJob:
    """A job that may be suspended while idle.

    Attributes:
        row_id: of the ledger.
        job: public id.
        idle_seconds: idle time after which it may be suspended.
        suspension: where its memory is; None: on its cards.
        beneficiary: for which claim it was suspended; None: it was not, or by hand.
        since_ns: since when it is suspended; 0: it is not.
        wanted_ns: since when a program of it waits to work again; 0: none does.
        milli: compute of each of its seats while it runs.
        cards: by uuid, the bytes of its seats as they are while it runs.
        names: by uuid, what people call these cards.
    """

    row_id: int
    job: str
    idle_seconds: int
    suspension: SuspensionState | None
    beneficiary: str | None
    since_ns: int
    wanted_ns: int
    milli: int
    cards: Mapping[str, int]
    names: Mapping[str, str]

    @property
    def is_on_cards(self) -> bool:
        return self.suspension in (None, SuspensionState.FAILED)

    def build_returning_job(self) -> ReturningJob:
        """Build what the scheduler knows of a job that is to come back to its cards."""
        return ReturningJob(self.job, self.milli, self.cards)

    @property
    def has_left_idle(self) -> bool:
        """Whether it is off its cards, or on its way, because it was idle."""
        return not self.is_on_cards and self.beneficiary is not None


def read_agreed_jobs(connection: sa.Connection) -> list[AgreedJob]:
    """Read the jobs, those that were submitted first in front."""
    cards = defaultdict[int, dict[str, int]](dict)
    names = defaultdict[int, dict[str, str]](dict)
    first = dict[int, Any]()
    for row in connection.execute(_AGREED):
        first.setdefault(row.id, row)
        # Empty seats are remembered with the suspension.
        cards[row.id][row.uuid] = row.memory_bytes or row.suspended_bytes or 0
        names[row.id][row.uuid] = device_name(row.node, row.idx)
    found = list[AgreedJob]()
    for key, row in first.items():
        state = None if row.suspension is None else SuspensionState(row.suspension)
        found.append(
            AgreedJob(
                key,
                row.job,
                row.idle_seconds,
                state,
                row.beneficiary,
                row.since_ns or 0,
                row.wanted_ns or 0,
                row.gpu_milli or row.suspended_milli or 0,
                cards[key],
                names[key],
            )
        )
    return found


def select_idle_jobs(
    agreed: Iterable[AgreedJob], samples: Mapping[str, LatestSample], now_ns: int
) -> list[IdleJob]:
    """Select the jobs on their cards that are idle for as long as they agreed to.

    The time since the sample counts: whether it was idle then too is checked by its node.
    """
    found = list[IdleJob]()
    for one in agreed:
        seen = samples.get(one.job)
        if not one.is_on_cards or seen is None or now_ns - seen.at_ns > FRESH_NS:
            continue
        if seen.sample.idle_milliseconds is None:
            continue
        measured_ns = seen.sample.idle_milliseconds * NANOS_PER_MILLISECOND
        idle_ns = measured_ns + max(0, now_ns - seen.at_ns)
        if idle_ns >= one.idle_seconds * NANOS_PER_SECOND:
            found.append(IdleJob(one.job, idle_ns, seen.sample.gpu_memory_bytes or 0))
    return found
