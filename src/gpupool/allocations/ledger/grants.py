"""Grants: allocations, seats, holdings and the meter, written in one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.members import create_members, replace_members_in_placements
from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.cards import (
    build_card_updates,
    take_cards,
)
from gpupool.allocations.ledger.holdings import add_holdings
from gpupool.allocations.ledger.hosts import read_nodes, take_hosts
from gpupool.allocations.ledger.running_jobs import (
    SeatHolder,
    build_holder,
    read_shapes,
)
from gpupool.allocations.store.gangs import read_shape
from gpupool.allocations.store.tables import allocations, claims, gangs, jobs, seats
from gpupool.base.ids import new_id
from gpupool.base.units import MIB
from gpupool.metering.service import MeteringService
from gpupool.model.allocation import AllocationState
from gpupool.model.claim import SharingKind
from gpupool.model.job import JobState
from gpupool.model.partition import PartitionSlot
from gpupool.model.sharing_default import choose_sharing
from gpupool.network.model import make_dns_name
from gpupool.network.planes.node_gate import NodeGrant, refuse_closed_nodes
from gpupool.network.ports import create_port
from gpupool.scheduling import JobPlacement
from gpupool.store.database import WriteTransaction
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
        jobs.c.moving_to,
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
        # A job may have been stopped, and its gang marked as ending, after the plan was made.
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
# The ids come back in the order of the rows, so that seats are written to the right allocations.
_NEW_ALLOCATION = allocations.insert().returning(allocations.c.id, sort_by_parameter_order=True)
_NEW_SEAT = seats.insert()


def write_grants(
    write: WriteTransaction, metering: MeteringService, placements: Sequence[JobPlacement]
) -> tuple[LedgerChange, tuple[str, ...]]:
    """Write the placements of a plan, all or none.

    A member of an array becomes a job here. A gang is left out as a whole if one of its members no
    longer waits.

    Args:
        write: The transaction; the caller commits it.
        metering: Opens the intervals of the new seats.
        placements: Seats with the generations that the plan has read.

    Returns:
        The change for the cache, and the jobs that no longer wait.

    Raises:
        StaleGeneration: A card or a node has changed since the plan; nothing is written.
    """
    # A member of an array gets its row here and not at submission, so that an array of a million
    # members costs rows only as they start (decision 0015).
    members = create_members(write, (placement.job for placement in placements))
    placements = replace_members_in_placements(placements, members)
    pending = _read_pending_jobs(write, placements)
    valid, gone = _split_placements(placements, pending)
    if not valid:
        return LedgerChange(), gone
    # Cards first: a stale plan fails here, before anything else was written for nothing.
    cards = take_cards(write, valid)
    hosts = take_hosts(write, valid, pending)
    places = read_nodes(write, {placement.node for placement in valid})
    if any(place.has_planes for place in places.values()):
        refuse_closed_nodes(write.connection, _list_node_grants(valid, pending))
    allocation_ids = _insert_allocations(write, valid, pending, places)
    _create_ports(write, zip(allocation_ids, valid, strict=True), pending)
    _insert_seats(write, metering, zip(allocation_ids, valid, strict=True), pending, cards)
    write.announce(*(("node", node.agent) for node in places.values()))
    _start_jobs(write, valid, pending)
    granted = LedgerChange(
        jobs=tuple(placement.job for placement in valid),
        cards=build_card_updates(cards.values()),
        tenants=add_holdings(write, _sum_by_tenant(valid, pending)),
        hosts=hosts,
        held=_build_holders(write, valid, pending),
        made=tuple(members),
    )
    return granted, gone


def _split_placements(
    placements: Sequence[JobPlacement], pending: Mapping[str, Row]
) -> tuple[list[JobPlacement], tuple[str, ...]]:
    """Return the placements that can be written, and the jobs that no longer wait."""
    gone = list[str]()
    broken_gangs = set[str]()
    for placement in placements:
        if placement.job not in pending:
            gone.append(placement.job)
            if placement.gang:
                broken_gangs.add(placement.gang)
    valid = list[JobPlacement]()
    for placement in placements:
        # A gang starts whole or not at all, so its other members are left out without being gone.
        if placement.job in pending and placement.gang not in broken_gangs:
            valid.append(placement)
    return valid, tuple(gone)


def _list_node_grants(
    placements: Sequence[JobPlacement], pending: Mapping[str, Row]
) -> set[NodeGrant]:
    rows = ((pending[placement.job], placement.node) for placement in placements)
    return {NodeGrant(row.tenant, node, row.network_id is not None) for row, node in rows}


def _sum_by_tenant(
    placements: Sequence[JobPlacement], pending: Mapping[str, Row]
) -> dict[int, Counter[str]]:
    by_tenant: dict[int, Counter[str]] = defaultdict(Counter)
    for placement in placements:
        taken = by_tenant[pending[placement.job].tenant_id]
        for seat in placement.seats:
            taken.update(milli=seat.gpu_milli, bytes=seat.memory_bytes)
    return by_tenant


def _build_holders(
    write: WriteTransaction, placements: Sequence[JobPlacement], pending: Mapping[str, Row]
) -> tuple[SeatHolder, ...]:
    shapes = read_shapes(pending.values())
    holders = list[SeatHolder]()
    for placement in placements:
        row = pending[placement.job]
        shape = shapes[row.claim_id]
        where = (placement.numa, placement.node)
        holders.append(build_holder(row, shape, placement.seats, write.now_ns, *where))
    return tuple(holders)


def _read_pending_jobs(
    write: WriteTransaction, placements: Sequence[JobPlacement]
) -> dict[str, Row]:
    if not placements:
        return {}
    names = [placement.job for placement in placements]
    return {row.job: row for row in write.execute(_PENDING, {"jobs": names})}


def _insert_allocations(
    write: WriteTransaction,
    placements: Sequence[JobPlacement],
    pending: Mapping[str, Row],
    places: Mapping[str, Row],
) -> Sequence[int]:
    """Insert an allocation for each placement; return their row ids in the same order."""
    generation = write.touch_ledger()
    defaults = _find_sharing_defaults(placements, pending, places)
    rows = list[dict[str, Any]]()
    for placement in placements:
        job = pending[placement.job]
        row = {
            "public_id": new_id("a"),
            "job_id": job.job_id,
            "claim_id": job.claim_id,
            "node_id": places[placement.node].id,
            "state": AllocationState.GRANTED,
            "generation": generation,
            "why": placement.why[:200],
            "work_seq": generation,
            "granted_ns": write.now_ns,
            "cpu_milli": job.cpu_milli,
            "host_bytes": job.host_bytes,
            "numa": placement.numa or None,
            # A launcher holds its seats at once, but its agent sees them only when the other
            # members run.
            "held_back": job.launcher,
            "sharing": defaults.get(placement.job),
        }
        rows.append(row)
    return write.execute(_NEW_ALLOCATION, rows).scalars().all()


def _create_ports(
    write: WriteTransaction,
    allocated: Iterable[tuple[int, JobPlacement]],
    pending: Mapping[str, Row],
) -> None:
    """Give addresses to jobs that join a network. Their submission has counted them."""
    for allocation, placement in allocated:
        job = pending[placement.job]
        if job.network_id is not None:
            name = make_dns_name(job.name, job.array_name)
            create_port(
                write,
                job.network_id,
                allocation,
                name,
                job.security_groups or (),
                address=job.network_address,
                address6=job.network_address6,
                mac=job.network_mac,
            )


def _find_sharing_defaults(
    placements: Sequence[JobPlacement], pending: Mapping[str, Row], places: Mapping[str, Row]
) -> dict[str, SharingKind]:
    """Find the sharing of the jobs that name none, by job, as their nodes' labels say it now."""
    found = dict[str, SharingKind]()
    for placement in placements:
        job = pending[placement.job]
        if not job.names_sharing:
            found[placement.job] = choose_sharing(read_shape(job), places[placement.node].labels)
    return found


def _insert_seats(
    write: WriteTransaction,
    metering: MeteringService,
    allocated: Iterable[tuple[int, JobPlacement]],
    pending: Mapping[str, Row],
    cards: Mapping[str, Row],
) -> None:
    taken: list[dict[str, Any]] = []
    metered: list[dict[str, Any]] = []
    for allocation, placement in allocated:
        job = pending[placement.job]
        owner = {
            "job_id": job.job_id,
            "tenant_id": job.tenant_id,
            "project_id": job.project_id,
            "user_id": job.user_id,
        }
        for seat in placement.seats:
            where = {
                "allocation_id": allocation,
                "device_id": cards[seat.device].id,
                "gpu_milli": seat.gpu_milli,
            }
            piece = _build_piece_columns(seat.partition)
            taken.append({**where, "memory_bytes": seat.memory_bytes, **piece})
            metered.append({**where, **owner, "memory_mib": seat.memory_bytes // MIB})
    if taken:
        write.execute(_NEW_SEAT, taken)
    # In the same transaction, so that no second of a seat is unbilled and none billed without it.
    metering.open_seats(write, metered)


def _build_piece_columns(piece: PartitionSlot | None) -> dict[str, Any]:
    if piece is None:
        return {"profile": None, "start": None, "size": None}
    return {"profile": piece.profile, "start": piece.start, "size": piece.size}


def _start_jobs(
    write: WriteTransaction, placements: Sequence[JobPlacement], pending: Mapping[str, Row]
) -> None:
    ids = [pending[placement.job].job_id for placement in placements]
    write.execute(_START_JOBS, {"ids": ids, "placed": write.now_ns})
    for placement in placements:
        job = pending[placement.job]
        cards = [seat.device for seat in placement.seats]
        data = {"name": job.name, "node": placement.node, "cards": cards}
        write.event("job.placed", placement.job, tenant_id=job.tenant_id, data=data)
        if job.moving_to is not None:
            write.event("job.moved", placement.job, tenant_id=job.tenant_id, data=data)
        write.announce(("job", placement.job))
