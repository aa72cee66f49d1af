"""Reads which mechanisms an agent should take for its allocations, by what their cards offer now.

Only claims that say how they are to be served have a plan; the agent chooses for all others. A plan
is made when the agent reads its work and not stored: the offers of a node that registers again
between the grant and the start are the newer ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.gangs import read_shape
from gpupool.allocations.store.tables import allocations, claims, jobs, seats
from gpupool.fleet.tables import devices
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import read_offers
from gpupool.scheduling import OfferedCard, plan_allocation
from gpupool.tenancy.tables import tenants
from gpupool.wire.mechanisms import PlannedMechanism

#: A row of the selects below; their columns are its attributes.
Row = Any

_CLAIMS = (
    sa.select(allocations.c.id.label("allocation_id"), claims)
    .join(claims, claims.c.id == allocations.c.claim_id)
    .where(allocations.c.id.in_(sa.bindparam("allocations", expanding=True)))
)
_CARDS = (
    sa.select(
        seats.c.allocation_id,
        devices.c.id,
        devices.c.uuid,
        devices.c.model,
        devices.c.memory_bytes,
        devices.c.facts,
    )
    .join(devices, devices.c.id == seats.c.device_id)
    .where(seats.c.allocation_id.in_(sa.bindparam("allocations", expanding=True)))
    .order_by(seats.c.allocation_id, devices.c.idx)
)
_OWNERS = (
    sa.select(seats.c.device_id, tenants.c.name)
    .distinct()
    .join(allocations, allocations.c.id == seats.c.allocation_id)
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .where(
        seats.c.device_id.in_(sa.bindparam("devices", expanding=True)),
        allocations.c.state != sa.literal_column("'released'"),
    )
)


def read_mechanism_plans(
    connection: sa.Connection, work: Sequence[Row]
) -> dict[int, list[PlannedMechanism]]:
    """Return the plan of each allocation that has one, by its row id.

    Args:
        connection: Reads the cards, and the tenants on them.
        work: Rows of allocations that are to run, with their claim's needs and their launch.
    """
    planned = {row.id: row for row in work if row.needs}
    if not planned:
        # Most claims demand nothing, and an agent asks again and again.
        return {}
    wanted = {"allocations": list(planned)}
    cards: dict[int, list[Row]] = defaultdict(list)
    for card in connection.execute(_CARDS, wanted):
        cards[card.allocation_id].append(card)
    owners = _read_owners(connection, {card.id for found in cards.values() for card in found})
    plans = dict[int, list[PlannedMechanism]]()
    for claim in connection.execute(_CLAIMS, wanted):
        row = planned[claim.allocation_id]
        offered = [_read_card(card, owners) for card in cards[claim.allocation_id]]
        shape = read_shape(claim)
        launch = row.spec or row.gang_launch or row.array_launch
        needs = replace(shape.needs, host=shape.needs.host or find_host(launch))
        options = plan_allocation(shape, needs, offered, row.tenant)
        plans[claim.allocation_id] = [
            PlannedMechanism.model_validate(
                {"mechanism": option.mechanism, "holds": option.levels.write()}
            )
            for option in options
        ]
    return plans


def find_host(launch: Mapping[str, Any] | None) -> HostKind:
    """Return what a command runs in; None is the launch of a job that has ended."""
    if launch is not None and launch.get("vm"):
        return HostKind.VM
    if launch is not None and launch.get("container"):
        return HostKind.CONTAINER
    return HostKind.PROCESS


def _read_owners(connection: sa.Connection, ids: set[int]) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = defaultdict(list)
    for row in connection.execute(_OWNERS, {"devices": list(ids)}):
        found[row.device_id].append(row.name)
    return {device: tuple(sorted(names)) for device, names in found.items()}


def _read_card(row: Row, owners: Mapping[int, tuple[str, ...]]) -> OfferedCard:
    offers = read_offers(row.facts.get("mechanisms"))
    return OfferedCard(row.uuid, row.model, row.memory_bytes, offers, owners.get(row.id, ()))
