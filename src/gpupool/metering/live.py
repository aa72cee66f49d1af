"""What is held and used at this moment: what `gpupool top` shows.

Reads the open intervals and the samples in memory. A figure that was not measured is null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import DeviceObservation, device_name
from gpupool.metering.samples import LatestSample
from gpupool.metering.tables import intervals, jobs_view
from gpupool.metering.use import compute_job_use
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.report import LiveCard, LiveJob, LiveOut, LiveTenant
from gpupool.wire.samples import UsageOut

CardSample = Callable[[str], DeviceObservation | None]
_OPEN = intervals.c.end_s.is_(None)
#: What a job's use and a line of the live view call by one name.
_SAME = (
    "gpu_percent",
    "share_percent",
    "cpu_percent",
    "gpu_milliseconds",
    "sampled_ns",
    "reserved_bytes",
    "unaccounted_bytes",
    "wait_milliseconds",
    "throttled_milliseconds",
    "launches",
    "refusals",
)


def read_live(
    connection: sa.Connection,
    at_ns: int,
    latest: Mapping[str, LatestSample],
    card_sample: CardSample,
    *,
    tenant_id: int | None,
    limit: int,
) -> LiveOut:
    """Everything, or one tenant's part: its jobs and the cards they are on."""
    mine = _OPEN if tenant_id is None else sa.and_(_OPEN, intervals.c.tenant_id == tenant_id)
    cards, cards_total = _read_cards(
        connection, mine if tenant_id is not None else None, card_sample, limit
    )
    jobs_total = connection.execute(
        sa.select(sa.func.count(intervals.c.job_id.distinct())).where(mine)
    ).scalar_one()
    return LiveOut(
        at_ns=at_ns,
        cards=cards,
        cards_total=cards_total,
        tenants=_read_tenants(connection, mine, tenant_id),
        jobs=_read_jobs(connection, mine, latest, limit),
        jobs_total=jobs_total,
    )


def _read_cards(
    connection: sa.Connection, mine: Any, card_sample: CardSample, limit: int
) -> tuple[list[LiveCard], int]:
    query = sa.select(devices, nodes.c.name.label("node")).join(
        nodes, nodes.c.id == devices.c.node_id
    )
    if mine is not None:
        query = query.where(devices.c.id.in_(sa.select(intervals.c.device_id).where(mine)))
    total = connection.execute(
        sa.select(sa.func.count()).select_from(query.subquery())
    ).scalar_one()
    rows = connection.execute(query.order_by(devices.c.node_id, devices.c.idx).limit(limit))
    return [_build_card(row, card_sample(row.uuid)) for row in rows], total


def _build_card(row: Any, seen: DeviceObservation | None) -> LiveCard:
    return LiveCard(
        device=device_name(row.node, row.idx),
        uuid=row.uuid,
        node=row.node,
        model=row.model,
        simulated=row.simulated,
        state=row.state,
        health=row.health,
        memory_bytes=row.memory_bytes,
        held_milli=row.used_milli,
        held_bytes=row.used_bytes,
        shares=row.shares,
        usage=seen.usage if seen else UsageOut(),
    )


def _read_tenants(connection: sa.Connection, mine: Any, tenant_id: int | None) -> list[LiveTenant]:
    i = intervals.c
    of_pods = i.allocation_id < 0  # of a cluster, whose quotas are not kept here
    grouped = sa.select(
        i.tenant_id,
        sa.func.count(i.job_id.distinct()).label("jobs"),
        sa.cast(sa.func.sum(sa.case((of_pods, i.gpu_milli), else_=0)), sa.BigInteger).label(
            "milli"
        ),
        sa.cast(sa.func.sum(sa.case((of_pods, i.memory_mib), else_=0)), sa.BigInteger).label("mib"),
    ).where(mine)
    found = {row.tenant_id: row for row in connection.execute(grouped.group_by(i.tenant_id))}
    query = sa.select(tenants).where(
        tenants.c.id.in_([tenant_id] if tenant_id is not None else list(found))
    )
    rows: list[LiveTenant] = []
    for row in connection.execute(query.order_by(tenants.c.name)):
        # A tenant without open intervals is shown where it is the caller's own.
        sums = found.get(row.id)
        rows.append(
            LiveTenant(
                tenant=row.name,
                held_milli=row.held_milli + (sums.milli if sums else 0),
                held_bytes=row.held_memory_bytes + (sums.mib * MIB if sums else 0),
                jobs=sums.jobs if sums else 0,
            )
        )
    return rows


def _read_jobs(
    connection: sa.Connection, mine: Any, latest: Mapping[str, LatestSample], limit: int
) -> list[LiveJob]:
    """Read the newest jobs first."""
    i = intervals.c
    newest = sa.select(i.job_id).where(mine).distinct().order_by(i.job_id.desc()).limit(limit)
    ids = connection.execute(newest).scalars().all()
    seats: dict[int, list[Any]] = defaultdict(list)
    query = (
        sa.select(i.job_id, i.gpu_milli, i.memory_mib, nodes.c.name.label("node"), devices.c.idx)
        .join_from(intervals, devices, devices.c.id == i.device_id)
        .join(nodes, nodes.c.id == devices.c.node_id)
        .where(_OPEN, i.job_id.in_(ids))
        .order_by(devices.c.node_id, devices.c.idx)
    )
    for row in connection.execute(query):
        seats[row.job_id].append(row)
    owners = (
        sa.select(jobs_view, tenants.c.name.label("tenant"), users.c.name.label("user"))
        .join(tenants, tenants.c.id == jobs_view.c.tenant_id)
        .join(users, users.c.id == jobs_view.c.user_id)
        .where(jobs_view.c.id.in_(ids))
        .order_by(jobs_view.c.id.desc())
    )
    jobs: list[LiveJob] = []
    for row in connection.execute(owners):
        jobs.append(_build_job(row, seats[row.id], latest.get(row.public_id)))
    return jobs


def _build_job(row: Any, seats: Sequence[Any], seen: LatestSample | None) -> LiveJob:
    held_milli = 0
    held_bytes = 0
    names: list[str] = []
    for seat in seats:
        held_milli += seat.gpu_milli
        held_bytes += seat.memory_mib * MIB
        names.append(device_name(seat.node, seat.idx))
    use = compute_job_use(seen, held_milli, held_bytes) if seen else None
    return LiveJob(
        job=row.public_id,
        name=row.name,
        tenant=row.tenant,
        user=row.user,
        devices=names,
        held_milli=held_milli,
        held_bytes=held_bytes,
        since_ns=row.placed_ns or 0,
        gpu_memory_bytes=use.memory_bytes if use else None,
        rss_bytes=seen.sample.rss_bytes if seen else None,
        cpu_milliseconds=seen.sample.cpu_milliseconds if seen else None,
        **({name: getattr(use, name) for name in _SAME} if use else {}),
    )
