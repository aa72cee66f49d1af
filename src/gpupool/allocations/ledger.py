"""Writing grants and returns: seats, cards, hosts, tenants and the meter, in one transaction.

Every number that is kept twice (a card's use, a tenant's holdings, the open intervals) is written from here and
nowhere else, so that they cannot drift apart; `cards` and `hosts` know how, of their rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.members import make_members, with_members
from gpupool.allocations.cards import card_notes, free_cards, read_cards_by_id, take_cards, uncut
from gpupool.allocations.held import Held, held_of, read_held, shapes_by_claim
from gpupool.allocations.hosts import free_hosts, take_hosts
from gpupool.allocations.notes import Granted
from gpupool.allocations.tables import allocations, claims, gangs, jobs, seats
from gpupool.base.ids import new_id
from gpupool.base.units import MIB
from gpupool.fleet.service import Fleet
from gpupool.metering.service import Metering
from gpupool.model.allocation import AllocationState
from gpupool.model.job import JobState
from gpupool.model.partition import Placement as PartitionPlace
from gpupool.scheduling.snapshot import Placement
from gpupool.store.database import Write
from gpupool.tenancy.tables import tenants

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_PENDING = (
    sa.select(
        jobs.c.id.label("job_id"),
        jobs.c.public_id.label("job"),
        jobs.c.claim_id,
        jobs.c.name,
        jobs.c.array_name,
        jobs.c.launcher,
        jobs.c.stop_requested,
        jobs.c.leaving_for,
        jobs.c.saved_ns,
        jobs.c.gang_role,
        claims,
        tenants.c.name.label("tenant"),
        gangs.c.public_id.label("gang"),
        gangs.c.spec,
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .where(
        jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True)),
        jobs.c.state == JobState.PENDING,
        gangs.c.ending.is_(None),
    )
)
_START_JOBS = (
    jobs.update()
    .where(jobs.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(
        state=JobState.STARTING,
        reason="",
        moving_to=sa.null(),
        placed_ns=sa.bindparam("placed"),
        generation=jobs.c.generation + 1,
    )
)
_NEW_ALLOCATION = allocations.insert().returning(allocations.c.id, sort_by_parameter_order=True)
_RELEASE = (
    allocations.update()
    .where(allocations.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(state=AllocationState.RELEASED, released_ns=sa.bindparam("released"))
)
_NEW_SEAT = seats.insert()
_SEATS = sa.select(seats).where(seats.c.allocation_id.in_(sa.bindparam("allocations", expanding=True)))
_SET_SEAT = (
    seats.update()
    .where(seats.c.allocation_id == sa.bindparam("allocation"), seats.c.device_id == sa.bindparam("card"))
    .values(gpu_milli=sa.bindparam("milli"), memory_bytes=sa.bindparam("bytes"))
)
_NEW_GENERATION = (
    allocations.update()
    .where(allocations.c.id == sa.bindparam("allocation"))
    .values(generation=sa.bindparam("now"), work_seq=sa.bindparam("now"))
)
_HOLD = (
    tenants.update()
    .where(tenants.c.id == sa.bindparam("tenant"))
    .values(
        held_milli=tenants.c.held_milli + sa.bindparam("milli"),
        held_memory_bytes=tenants.c.held_memory_bytes + sa.bindparam("bytes"),
        generation=tenants.c.generation + 1,
    )
    .returning(*tenants.c)
)


def grant(write: Write, metering: Metering, placements: Sequence[Placement]) -> tuple[Granted, tuple[str, ...]]:
    """Write placements; also the jobs that no longer wait. Raises StaleGeneration and leaves nothing.

    All or nothing: a card whose row is not the one that was read fails the whole plan. A gang of which a member that
    was to start is gone is left out as a whole. A member of an array becomes a job here.
    """
    members = make_members(write, (placement.job for placement in placements))
    placements = with_members(placements, members)
    pending = _pending(write, [placement.job for placement in placements]) if placements else {}
    gone = tuple(placement.job for placement in placements if placement.job not in pending)
    broken = {placement.gang for placement in placements if placement.gang and placement.job not in pending}
    valid = [one for one in placements if one.job in pending and one.gang not in broken]
    if not valid:
        return Granted(), gone
    cards = take_cards(write, valid)
    hosts = take_hosts(write, valid, pending)
    by_tenant: dict[int, Counter[str]] = defaultdict(Counter)
    for placement in valid:
        taken = by_tenant[pending[placement.job].tenant_id]
        taken["milli"] += sum(seat.gpu_milli for seat in placement.seats)
        taken["bytes"] += sum(seat.memory_bytes for seat in placement.seats)
    made = _insert_allocations(write, valid, pending, cards)
    _insert_seats(write, metering, zip(made, valid, strict=True), pending, cards)
    write.announce(*(("node", card.agent) for card in cards.values()))
    _start_jobs(write, valid, pending)
    held = _held(write, valid, pending)
    names = tuple(placement.job for placement in valid)
    granted = Granted(names, card_notes(cards.values()), hold(write, by_tenant), hosts, held, made=tuple(members))
    return granted, gone


def _held(write: Write, placements: Sequence[Placement], pending: Mapping[str, Row]) -> tuple[Held, ...]:
    """What is held from now on, for the mirror."""
    shapes = shapes_by_claim(pending.values())
    rows = [pending[placement.job] for placement in placements]
    return tuple(
        held_of(row, shapes[row.claim_id], placement.seats, write.now_ns, placement.numa)
        for row, placement in zip(rows, placements, strict=True)
    )


def _pending(write: Write, wanted: Sequence[str]) -> dict[str, Row]:
    return {row.job: row for row in write.execute(_PENDING, {"jobs": list(wanted)})}


def _insert_allocations(
    write: Write, placements: Sequence[Placement], pending: Mapping[str, Row], cards: Mapping[str, Row]
) -> Sequence[int]:
    """Their numbers, in the order of the placements."""
    generation = write.touch_ledger()
    rows = [
        {
            "public_id": new_id("a"),
            "job_id": pending[placement.job].job_id,
            "claim_id": pending[placement.job].claim_id,
            "node_id": cards[placement.seats[0].device].node_id,
            "state": AllocationState.GRANTED,
            "generation": generation,
            "why": placement.why[:200],
            "work_seq": generation,
            "granted_ns": write.now_ns,
            "cpu_milli": pending[placement.job].cpu_milli,
            "host_bytes": pending[placement.job].host_bytes,
            "numa": placement.numa or None,
            "held_back": pending[placement.job].launcher,
        }
        for placement in placements
    ]
    return write.execute(_NEW_ALLOCATION, rows).scalars().all()


def _insert_seats(
    write: Write,
    metering: Metering,
    allocated: Iterable[tuple[int, Placement]],
    pending: Mapping[str, Row],
    cards: Mapping[str, Row],
) -> None:
    taken: list[dict[str, Any]] = []
    metered: list[dict[str, Any]] = []
    for allocation, placement in allocated:
        job = pending[placement.job]
        for seat in placement.seats:
            where = {"allocation_id": allocation, "device_id": cards[seat.device].id, "gpu_milli": seat.gpu_milli}
            taken.append({**where, "memory_bytes": seat.memory_bytes, **_piece_columns(seat.partition)})
            owner = {"tenant_id": job.tenant_id, "project_id": job.project_id, "user_id": job.user_id}
            metered.append({**where, **owner, "job_id": job.job_id, "memory_mib": seat.memory_bytes // MIB})
    write.execute(_NEW_SEAT, taken)
    metering.open_seats(write, metered)


def _piece_columns(piece: PartitionPlace | None) -> dict[str, Any]:
    if piece is None:
        return {"profile": None, "start": None, "size": None}
    return {"profile": piece.profile, "start": piece.start, "size": piece.size}


def _start_jobs(write: Write, placements: Sequence[Placement], pending: Mapping[str, Row]) -> None:
    write.execute(_START_JOBS, {"ids": [pending[one.job].job_id for one in placements], "placed": write.now_ns})
    for placement in placements:
        job = pending[placement.job]
        write.event(
            "job.placed",
            placement.job,
            tenant_id=job.tenant_id,
            data={"name": job.name, "node": placement.node, "cards": [seat.device for seat in placement.seats]},
        )
        write.announce(("job", placement.job))


def give_back(
    write: Write, metering: Metering, fleet: Fleet, tenant_of: Mapping[int, int], returned: Iterable[str] = ()
) -> Granted:
    """Release allocations that are held, given with their tenants: seats, cards, hosts, holdings and the meter.

    `returned` are their jobs.
    """
    if not tenant_of:
        return Granted()
    freed: dict[int, Counter[str]] = defaultdict(Counter)
    by_tenant: dict[int, Counter[str]] = defaultdict(Counter)
    held = write.execute(_SEATS, {"allocations": list(tenant_of)}).all()
    for seat in held:
        use = {"milli": seat.gpu_milli, "bytes": seat.memory_bytes}
        freed[seat.device_id].update(use, shares=1)
        by_tenant[tenant_of[seat.allocation_id]].subtract(use)
    free_cards(write, freed)
    uncut(write, held)
    hosts = free_hosts(write, list(tenant_of))
    write.execute(_RELEASE, {"ids": list(tenant_of), "released": write.now_ns})
    metering.close_allocations(write, tenant_of)
    write.touch_ledger()
    fleet.settle(write, list(freed))
    write.announce("queue")
    notes = read_cards_by_id(write.connection, freed)
    return Granted((), notes, hold(write, by_tenant), hosts, returned=tuple(returned))


@dataclass(frozen=True)
class Resize:
    """One seat's old and new size: held milli and bytes on a card."""

    card: int
    milli: int
    size: int
    milli_before: int
    size_before: int


def resize(
    write: Write, metering: Metering, job: str, allocation: int, tenant: int, changes: Sequence[Resize]
) -> Granted:
    """Write new sizes of all seats of a held allocation under a new generation; whether they fit was checked."""
    free_cards(write, {change.card: Counter(_less(change)) for change in changes})
    where = {"allocation": allocation}
    write.execute(
        _SET_SEAT, [{**where, "card": each.card, "milli": each.milli, "bytes": each.size} for each in changes]
    )
    metering.resize_seats(write, allocation, {each.card: (each.milli, each.size // MIB) for each in changes})
    write.execute(_NEW_GENERATION, {**where, "now": write.touch_ledger()})
    write.announce("queue")
    less: Counter[str] = Counter()
    for change in changes:
        less.update(_less(change))
    more = Counter({key: -value for key, value in less.items()})
    notes = read_cards_by_id(write.connection, [change.card for change in changes])
    held = tuple(read_held(write.connection, [job]))
    return Granted((), notes, hold(write, {tenant: more}), held=held)


def _less(change: Resize) -> dict[str, int]:
    return {"milli": change.milli_before - change.milli, "bytes": change.size_before - change.size, "shares": 0}


def hold(write: Write, by_tenant: Mapping[int, Counter[str]]) -> tuple[Row, ...]:
    """Add to what tenants hold; their rows as they are now."""
    return tuple(
        write.execute(_HOLD, {"tenant": tenant, "milli": use["milli"], "bytes": use["bytes"]}).one()
        for tenant, use in by_tenant.items()
    )
