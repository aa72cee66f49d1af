"""The shares of one card: which job holds how much of it, and how much of that it uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations, claims, jobs, seats
from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.fleet.lookup import find_device
from gpupool.metering.tables import intervals
from gpupool.model.allocation import AllocationState
from gpupool.model.claim import SharingKind
from gpupool.model.tenant import Principal
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.jobs import JobUse
from gpupool.wire.views.pool_map import CardShareOut

#: Returns what a job uses of so much compute and memory; None: nothing was heard of it.
UseLookup = Callable[[str, int, int], JobUse | None]

_SHARES = (
    sa.select(
        seats.c.gpu_milli,
        seats.c.memory_bytes,
        allocations.c.granted_ns,
        allocations.c.mechanism,
        sa.func.coalesce(allocations.c.sharing, claims.c.sharing).label("sharing"),
        jobs.c.public_id,
        jobs.c.name,
        jobs.c.tenant_id,
        tenants.c.name.label("tenant"),
        users.c.name.label("user"),
        claims.c.cards,
    )
    .join(allocations, allocations.c.id == seats.c.allocation_id)
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(claims, claims.c.id == allocations.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(users, users.c.id == jobs.c.user_id)
    .where(
        seats.c.device_id == sa.bindparam("device"),
        allocations.c.state != sa.literal_column(f"'{AllocationState.RELEASED}'"),
    )
    .order_by(allocations.c.granted_ns, allocations.c.id)
)
_PODS = (
    sa.select(
        intervals.c.gpu_milli,
        intervals.c.memory_mib,
        intervals.c.start_s,
        intervals.c.tenant_id,
        tenants.c.name.label("tenant"),
    )
    .join(tenants, tenants.c.id == intervals.c.tenant_id)
    .where(
        intervals.c.device_id == sa.bindparam("device"),
        intervals.c.end_s.is_(None),
        intervals.c.allocation_id < 0,
    )
    .order_by(intervals.c.start_s, intervals.c.id)
)


def list_card_shares(
    connection: sa.Connection, device: str, principal: Principal, find_use: UseLookup
) -> list[CardShareOut]:
    """List the shares of a card by the time of their start.

    Raises:
        NotFound: The pool has no such card.
    """
    card = find_device(connection, device)
    if card.of_cluster:
        rows = connection.execute(_PODS, {"device": card.id})
        return [_describe_pod(row, principal) for row in rows]
    found = list[CardShareOut]()
    for row in connection.execute(_SHARES, {"device": card.id}):
        found.append(_describe_share(row, principal, find_use))
    return found


def _describe_pod(row: Any, principal: Principal) -> CardShareOut:
    is_visible = principal.sees_all or row.tenant_id == principal.tenant_id
    return CardShareOut(
        tenant=row.tenant if is_visible else None,
        gpu_milli=row.gpu_milli,
        memory_bytes=row.memory_mib * MIB,
        since_ns=row.start_s * NANOS_PER_SECOND,
    )


def _describe_share(row: Any, principal: Principal, find_use: UseLookup) -> CardShareOut:
    amounts = CardShareOut(
        gpu_milli=row.gpu_milli, memory_bytes=row.memory_bytes, since_ns=row.granted_ns
    )
    if not (principal.sees_all or row.tenant_id == principal.tenant_id):
        return amounts
    # A job's use is known for all its cards together: of a job on several, each has the same part.
    held_milli = row.gpu_milli * row.cards if SharingKind(row.sharing).promises_compute else 0
    use = find_use(row.public_id, held_milli, row.memory_bytes * row.cards)
    used = None if use is None or use.memory_bytes is None else use.memory_bytes // row.cards
    return amounts.model_copy(
        update={
            "job": row.public_id,
            "name": row.name,
            "tenant": row.tenant,
            "user": row.user,
            "mechanism": row.mechanism,
            "share_percent": None if use is None else use.share_percent,
            "used_bytes": used,
        }
    )
