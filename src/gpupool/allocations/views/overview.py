"""What an overview shows beside capacity and queue: cards that are not well, and the caller's jobs."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from gpupool.allocations.store.tables import IS_LIVE, jobs
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.scheduling import CARD_STATUS, CardStatus, Snapshot
from gpupool.wire.views.overviews import CardCounts, FailingCard, TenantHolding

#: Cards that are not well, and tenants, that an overview names.
MOST_NAMED = 20

_IS_FAILED = sa.or_(
    devices.c.health == str(DeviceHealth.FAILED), devices.c.state == str(DeviceState.LOST)
)
_NOT_WELL = sa.or_(_IS_FAILED, devices.c.health == str(DeviceHealth.WARNING))
_FAILING = (
    sa.select(
        devices.c.idx,
        devices.c.model,
        devices.c.state,
        devices.c.health,
        devices.c.health_reason,
        nodes.c.name.label("node"),
    )
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(_NOT_WELL)
    .order_by(sa.case((_IS_FAILED, 0), else_=1), devices.c.node_id, devices.c.idx)
    .limit(MOST_NAMED)
)
_FAILING_COUNT = sa.select(sa.func.count()).select_from(devices).where(_NOT_WELL)
_MINE = (
    sa.select(jobs.c.state, sa.func.count().label("jobs"))
    .where(IS_LIVE, jobs.c.user_id == sa.bindparam("user"))
    .group_by(jobs.c.state)
)
_IS_SIMULATED = sa.select(sa.exists().where(devices.c.simulated))


def count_cards(snapshot: Snapshot) -> CardCounts:
    """Count the cards of a snapshot by what can be done with them."""
    numbers = Counter[int](snapshot.cards.status.tolist())
    by_status = {status: numbers[number] for number, status in enumerate(CARD_STATUS)}
    return CardCounts(
        total=len(snapshot.cards.uuids),
        open=by_status[CardStatus.OPEN],
        draining=by_status[CardStatus.DRAINING],
        failed=by_status[CardStatus.UNHEALTHY],
        observed=by_status[CardStatus.NOT_ADOPTED],
    )


def list_holdings(snapshot: Snapshot, tenant: str | None) -> list[TenantHolding]:
    """List what tenants hold, the one that holds most first.

    Args:
        snapshot: The pool.
        tenant: The only tenant to list; None lists the first ones of all.
    """
    found = list[TenantHolding]()
    for name, view in snapshot.tenants.items():
        held = view.held
        is_shown = name == tenant if tenant else held.gpu_milli > 0 or held.memory_bytes > 0
        if is_shown:
            found.append(
                TenantHolding(tenant=name, held_milli=held.gpu_milli, held_bytes=held.memory_bytes)
            )
    found.sort(key=lambda one: (-one.held_milli, -one.held_bytes, one.tenant))
    return found[:MOST_NAMED]


def read_failing_cards(connection: sa.Connection) -> tuple[list[FailingCard], int]:
    """Read the cards that are not well, failed ones first, and how many there are."""
    found = list[FailingCard]()
    for row in connection.execute(_FAILING):
        found.append(
            FailingCard(
                device=device_name(row.node, row.idx),
                model=row.model,
                state=row.state,
                health=row.health,
                reason=row.health_reason,
            )
        )
    return found, int(connection.execute(_FAILING_COUNT).scalar_one())


def count_live_jobs(connection: sa.Connection, user_id: int) -> dict[str, int]:
    """Count the live jobs of a user by state; members of arrays without a row are left out."""
    return {row.state: row.jobs for row in connection.execute(_MINE, {"user": user_id})}


def is_simulated(connection: sa.Connection) -> bool:
    """Whether at least one card is simulated."""
    return bool(connection.execute(_IS_SIMULATED).scalar_one())
