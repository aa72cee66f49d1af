"""Writing grants and returns: seats, cards, tenants and the meter, in one transaction.

Every number that is kept twice (a card's use, a tenant's holdings, the open intervals) is
written here and nowhere else, so that they cannot drift apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.held import held_of, piece_of, read_held
from gpupool.allocations.notes import CardNote, Granted, HostNote
from gpupool.allocations.tables import allocations, claims, gangs, jobs, seats
from gpupool.base.errors import StaleGeneration
from gpupool.base.ids import new_id
from gpupool.base.units import MIB
from gpupool.fleet.service import Fleet
from gpupool.fleet.tables import devices, nodes
from gpupool.metering.service import Metering
from gpupool.model.allocation import AllocationState, Seat
from gpupool.model.device import DeviceState
from gpupool.model.job import JobState
from gpupool.model.numa import NumaPart, added, host_of, numa_of, parts_of
from gpupool.model.partition import Placement as PartitionPlace
from gpupool.model.partition import is_valid_set, pieces_json, read_pieces, read_profiles
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
        claims,
        tenants.c.name.label("tenant"),
        gangs.c.public_id.label("gang"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .where(jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True)), jobs.c.state == JobState.PENDING)
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
_TAKE_CARD = (
    devices.update()
    .where(
        devices.c.uuid == sa.bindparam("card"),
        devices.c.generation == sa.bindparam("read"),
        devices.c.state == DeviceState.ADOPTED,
    )
    .values(
        used_milli=devices.c.used_milli + sa.bindparam("milli"),
        used_bytes=devices.c.used_bytes + sa.bindparam("bytes"),
        shares=devices.c.shares + sa.bindparam("more"),
        generation=devices.c.generation + 1,
    )
)
_NAME_CARD = (
    devices.update()
    .where(
        devices.c.uuid == sa.bindparam("card"),
        devices.c.generation == sa.bindparam("read"),
        devices.c.state == DeviceState.ADOPTED,
    )
    .values(generation=devices.c.generation + 1)
)
_FREE_CARD = (
    devices.update()
    .where(devices.c.id == sa.bindparam("card"))
    .values(
        used_milli=devices.c.used_milli - sa.bindparam("milli"),
        used_bytes=devices.c.used_bytes - sa.bindparam("bytes"),
        shares=devices.c.shares - sa.bindparam("fewer"),
        generation=devices.c.generation + 1,
    )
)
_OF_HOST = (
    nodes.c.name,
    nodes.c.used_cpu_milli,
    nodes.c.used_host_bytes,
    nodes.c.used_numa,
    nodes.c.generation,
    nodes.c.facts,
)
_HOST = (
    nodes.update()
    .where(nodes.c.name == sa.bindparam("node"))
    .values(
        used_cpu_milli=nodes.c.used_cpu_milli + sa.bindparam("cpu"),
        used_host_bytes=nodes.c.used_host_bytes + sa.bindparam("bytes"),
        generation=nodes.c.generation + 1,
    )
    .returning(*_OF_HOST)
)
_HOST_NUMA = (
    nodes.update()
    .where(nodes.c.name == sa.bindparam("node"))
    .values(used_numa=sa.bindparam("held", type_=sa.JSON()))
    .returning(*_OF_HOST)
)
_HELD_OF_HOSTS = (
    sa.select(nodes.c.name, allocations.c.cpu_milli, allocations.c.host_bytes, allocations.c.numa)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .where(
        allocations.c.id.in_(sa.bindparam("allocations", expanding=True)),
        sa.or_(allocations.c.cpu_milli != 0, allocations.c.host_bytes != 0),
    )
)
_CARDS = sa.select(
    devices.c.id,
    devices.c.uuid,
    devices.c.node_id,
    devices.c.used_milli,
    devices.c.used_bytes,
    devices.c.generation,
    devices.c.pieces,
    nodes.c.agent,
).join(nodes, nodes.c.id == devices.c.node_id)
_HOST_USE = sa.select(*_OF_HOST)
_USE = sa.select(devices.c.uuid, devices.c.used_milli, devices.c.used_bytes, devices.c.generation, devices.c.pieces)
_PIECES = sa.select(devices.c.id, devices.c.uuid, devices.c.facts, devices.c.pieces)
_CUT = devices.update().where(devices.c.id == sa.bindparam("card")).values(pieces=sa.bindparam("now"))
_CARDS_BY_UUID = _CARDS.where(devices.c.uuid.in_(sa.bindparam("cards", expanding=True)))
_CARDS_BY_ID = _CARDS.where(devices.c.id.in_(sa.bindparam("cards", expanding=True)))
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
    was to start is gone is left out as a whole.
    """
    pending = _pending(write, [placement.job for placement in placements]) if placements else {}
    gone = tuple(placement.job for placement in placements if placement.job not in pending)
    broken = {placement.gang for placement in placements if placement.gang and placement.job not in pending}
    valid = [one for one in placements if one.job in pending and one.gang not in broken]
    if not valid:
        return Granted(), gone
    cards = _take_cards(write, valid)
    hosts = _take_hosts(write, valid, pending)
    by_tenant: dict[int, Counter[str]] = defaultdict(Counter)
    for placement in valid:
        taken = by_tenant[pending[placement.job].tenant_id]
        taken["milli"] += sum(seat.gpu_milli for seat in placement.seats)
        taken["bytes"] += sum(seat.memory_bytes for seat in placement.seats)
    _insert(write, metering, valid, pending, cards)
    _start_jobs(write, valid, pending)
    held = tuple(held_of(pending[one.job], one.seats, write.now_ns, one.numa) for one in valid)
    names = tuple(placement.job for placement in valid)
    return Granted(names, _notes(cards.values()), hold(write, by_tenant), hosts, held), gone


def _pending(write: Write, wanted: Sequence[str]) -> dict[str, Row]:
    return {row.job: row for row in write.execute(_PENDING, {"jobs": list(wanted)})}


@dataclass
class _HostUse:
    """What comes to a node's use of its processors and main memory, or leaves it."""

    cpu: int = 0
    size: int = 0
    numa: tuple[NumaPart, ...] = ()

    def add(self, cpu: int, size: int, numa: Iterable[NumaPart]) -> None:
        self.cpu, self.size, self.numa = self.cpu + cpu, self.size + size, added(self.numa, numa)


def _take_hosts(write: Write, placements: Sequence[Placement], pending: dict[str, Row]) -> tuple[HostNote, ...]:
    """Add to what is held of the nodes' processors and main memory. Raises StaleGeneration where a node has less."""
    taken: dict[str, _HostUse] = defaultdict(_HostUse)
    for placement in placements:
        job = pending[placement.job]
        if job.cpu_milli or job.host_bytes:
            taken[placement.node].add(job.cpu_milli, job.host_bytes, placement.numa)
    rows = [_change_host(write, node, use, 1) for node, use in taken.items()]
    for row in rows:
        if _has_less(row, taken[row.name].numa):
            raise StaleGeneration(f"node {row.name} has less than was planned with", hint="plan again")
    return _host_notes(rows)


def _change_host(write: Write, node: str, use: _HostUse, sign: int) -> Row:
    """The node's row afterwards. It is locked by the first of the two writes."""
    row = write.execute(_HOST, {"node": node, "cpu": sign * use.cpu, "bytes": sign * use.size}).one()
    if not use.numa:
        return row
    return write.execute(_HOST_NUMA, {"node": node, "held": added(parts_of(row.used_numa), use.numa, sign)}).one()


def _has_less(row: Row, taken: Iterable[NumaPart]) -> bool:
    """Whether a node's use is more than what it has, of the whole or of a NUMA node that was just taken from."""
    has = host_of(row.facts)
    if has is not None and (row.used_cpu_milli > has[0] or row.used_host_bytes > has[1]):
        return True
    sizes = {node.number: (1000 * len(node.cpus), node.memory_bytes) for node in numa_of(row.facts)}
    used = {part.numa: part for part in parts_of(row.used_numa)}
    return any(
        used[numa].cpu_milli > sizes.get(numa, (0, 0))[0] or used[numa].host_bytes > sizes.get(numa, (0, 0))[1]
        for numa, _, _ in taken
    )


def _host_notes(rows: Iterable[Row]) -> tuple[HostNote, ...]:
    return tuple(
        HostNote(row.name, row.used_cpu_milli, row.used_host_bytes, row.generation, parts_of(row.used_numa))
        for row in rows
    )


def _free_hosts(write: Write, allocation_ids: Sequence[int]) -> tuple[HostNote, ...]:
    less: dict[str, _HostUse] = defaultdict(_HostUse)
    for row in write.execute(_HELD_OF_HOSTS, {"allocations": list(allocation_ids)}):
        less[row.name].add(row.cpu_milli, row.host_bytes, parts_of(row.numa))
    return _host_notes(_change_host(write, node, use, -1) for node, use in less.items())


def _take_cards(write: Write, placements: Sequence[Placement]) -> dict[str, Row]:
    """Add each card's new seats to its row, if that is still the one the plan has read. The rows as they are now."""
    read: dict[str, int] = {}
    taken: dict[str, Counter[str]] = defaultdict(Counter)
    for placement in placements:
        for seat, generation in zip(placement.seats, placement.generations, strict=True):
            read.setdefault(seat.device, generation)
            taken[seat.device].update(milli=seat.gpu_milli, bytes=seat.memory_bytes, shares=1)
    rows = [
        {"card": uuid, "read": read[uuid], "milli": use["milli"], "bytes": use["bytes"], "more": use["shares"]}
        for uuid, use in taken.items()
    ]
    if write.execute(_TAKE_CARD, rows).rowcount != len(rows):
        raise StaleGeneration("a card changed while the plan was made", hint="plan again")
    _cut(write, [seat for placement in placements for seat in placement.seats])
    return {row.uuid: row for row in write.execute(_CARDS_BY_UUID, {"cards": list(taken)})}


def _cut(write: Write, taken: Iterable[Seat]) -> None:
    """Note the pieces that are taken of cards in partition mode. Raises StaleGeneration where they cannot be cut."""
    more: dict[str, list[PartitionPlace]] = defaultdict(list)
    for seat in taken:
        if seat.partition is not None:
            more[seat.device].append(seat.partition)
    for row in write.execute(_PIECES.where(devices.c.uuid.in_(more))) if more else ():
        now = (*read_pieces(row.pieces), *more[row.uuid])
        if not is_valid_set(read_profiles(row.facts.get("profiles", ())), now):
            raise StaleGeneration(f"card {row.uuid} cannot be cut as was planned", hint="plan again")
        write.execute(_CUT, {"card": row.id, "now": pieces_json(now)})


def _uncut(write: Write, seats_back: Iterable[Row]) -> None:
    """Note the pieces that are given back."""
    less: dict[int, list[PartitionPlace]] = defaultdict(list)
    for seat in seats_back:
        if (piece := piece_of(seat)) is not None:
            less[seat.device_id].append(piece)
    for row in write.execute(_PIECES.where(devices.c.id.in_(less))) if less else ():
        left = [piece for piece in read_pieces(row.pieces) if piece not in less[row.id]]
        write.execute(_CUT, {"card": row.id, "now": pieces_json(left) or None})


def _insert(
    write: Write, metering: Metering, placements: Sequence[Placement], pending: dict[str, Row], cards: dict[str, Row]
) -> None:
    generation = write.touch_ledger()
    made = write.execute(
        _NEW_ALLOCATION,
        [
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
        ],
    ).scalars()
    taken: list[dict[str, Any]] = []
    metered: list[dict[str, Any]] = []
    for allocation, placement in zip(made, placements, strict=True):
        job = pending[placement.job]
        for seat in placement.seats:
            where = {"allocation_id": allocation, "device_id": cards[seat.device].id, "gpu_milli": seat.gpu_milli}
            taken.append({**where, "memory_bytes": seat.memory_bytes, **_piece_columns(seat.partition)})
            owner = {"tenant_id": job.tenant_id, "project_id": job.project_id, "user_id": job.user_id}
            metered.append({**where, **owner, "job_id": job.job_id, "memory_mib": seat.memory_bytes // MIB})
    write.execute(_NEW_SEAT, taken)
    metering.open_seats(write, metered)
    write.announce(*(("node", card.agent) for card in cards.values()))


def _piece_columns(piece: PartitionPlace | None) -> dict[str, Any]:
    if piece is None:
        return {"profile": None, "start": None, "size": None}
    return {"profile": piece.profile, "start": piece.start, "size": piece.size}


def _start_jobs(write: Write, placements: Sequence[Placement], pending: dict[str, Row]) -> None:
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
    _free_cards(write, freed)
    _uncut(write, held)
    hosts = _free_hosts(write, list(tenant_of))
    write.execute(_RELEASE, {"ids": list(tenant_of), "released": write.now_ns})
    metering.close_allocations(write, tenant_of)
    write.touch_ledger()
    fleet.settle(write, list(freed))
    write.announce("queue")
    notes = _notes(write.execute(_CARDS_BY_ID, {"cards": list(freed)}))
    return Granted((), notes, hold(write, by_tenant), hosts, returned=tuple(returned))


def _free_cards(write: Write, freed: dict[int, Counter[str]]) -> None:
    write.execute(
        _FREE_CARD,
        [
            {"card": card, "milli": use["milli"], "bytes": use["bytes"], "fewer": use["shares"]}
            for card, use in freed.items()
        ],
    )


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
    _free_cards(write, {change.card: Counter(_less(change)) for change in changes})
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
    notes = _notes(write.execute(_CARDS_BY_ID, {"cards": [change.card for change in changes]}))
    held = tuple(read_held(write.connection, [job]))
    return Granted((), notes, hold(write, {tenant: more}), held=held)


def _less(change: Resize) -> dict[str, int]:
    return {"milli": change.milli_before - change.milli, "bytes": change.size_before - change.size, "shares": 0}


def name_cards(write: Write, read: Mapping[str, int]) -> tuple[CardNote, ...]:
    """Cards of which something is kept from now on, by the generation that was read of each; as they are then.

    So no other plan that has read them before can be written any more. Raises StaleGeneration and leaves nothing.
    """
    rows = [{"card": uuid, "read": generation} for uuid, generation in read.items()]
    if rows and write.execute(_NAME_CARD, rows).rowcount != len(rows):
        raise StaleGeneration("a card changed since the plan was made", hint="plan again")
    return read_cards(write.connection, read)


def hold(write: Write, by_tenant: dict[int, Counter[str]]) -> tuple[Row, ...]:
    """Add to what tenants hold; their rows as they are now."""
    return tuple(
        write.execute(_HOLD, {"tenant": tenant, "milli": use["milli"], "bytes": use["bytes"]}).one()
        for tenant, use in by_tenant.items()
    )


def read_cards(connection: sa.Connection, uuids: Iterable[str]) -> tuple[CardNote, ...]:
    """What these cards hold now."""
    return _notes(connection.execute(_CARDS_BY_UUID, {"cards": list(uuids)}))


def read_use(connection: sa.Connection) -> tuple[list[CardNote], list[HostNote]]:
    """What every card and node holds now, and nothing else of them."""
    return [_note(row) for row in connection.execute(_USE)], list(_host_notes(connection.execute(_HOST_USE)))


def _notes(cards: Iterable[Row]) -> tuple[CardNote, ...]:
    return tuple(_note(row) for row in cards)


def _note(row: Any) -> CardNote:
    return CardNote(row.uuid, row.used_milli, row.used_bytes, row.generation, read_pieces(row.pieces))
