"""Allocated amounts in the rows of cards: taken by generation, cut into pieces, released.

`grants` and `releases` call this in the transaction that writes the seats, so that rows and seats
agree. A card that is not at the generation the plan has read raises StaleGeneration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import CardUpdate
from gpupool.allocations.ledger.running_jobs import read_piece
from gpupool.base.errors import StaleGeneration
from gpupool.fleet.tables import devices
from gpupool.model.allocation import Seat
from gpupool.model.device import DeviceState
from gpupool.model.partition import (
    PartitionSlot,
    can_add_slot,
    read_occupied_slots,
    read_partition_slots,
    read_profiles,
    write_partition_slots,
)
from gpupool.scheduling import JobPlacement
from gpupool.store.database import WriteTransaction

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.

# The generation in the condition is the whole concurrency control of placement: an update that
# matches fewer rows than it names is a stale plan. No lock is held between plan and write.
_AS_READ = devices.update().where(
    devices.c.uuid == sa.bindparam("card"),
    devices.c.generation == sa.bindparam("read"),
    devices.c.state == DeviceState.ADOPTED,
)
_TAKE = _AS_READ.values(
    used_milli=devices.c.used_milli + sa.bindparam("milli"),
    used_bytes=devices.c.used_bytes + sa.bindparam("bytes"),
    shares=devices.c.shares + sa.bindparam("more"),
    generation=devices.c.generation + 1,
)
_NAME = _AS_READ.values(generation=devices.c.generation + 1)
# A release names no generation: it must succeed whatever was planned meanwhile, also on a card that
# is draining or lost. It raises the generation, so plans that have read the card become stale.
_FREE = (
    devices.update()
    .where(devices.c.id == sa.bindparam("card"))
    .values(
        used_milli=devices.c.used_milli - sa.bindparam("milli"),
        used_bytes=devices.c.used_bytes - sa.bindparam("bytes"),
        shares=devices.c.shares - sa.bindparam("fewer"),
        generation=devices.c.generation + 1,
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
)
_BY_UUID = _CARDS.where(devices.c.uuid.in_(sa.bindparam("cards", expanding=True)))
_BY_ID = _CARDS.where(devices.c.id.in_(sa.bindparam("cards", expanding=True)))
_USE = sa.select(
    devices.c.uuid,
    devices.c.used_milli,
    devices.c.used_bytes,
    devices.c.generation,
    devices.c.pieces,
)
_PIECES = sa.select(devices.c.id, devices.c.uuid, devices.c.facts, devices.c.pieces)
_CUT = (
    devices.update().where(devices.c.id == sa.bindparam("card")).values(pieces=sa.bindparam("now"))
)


# Changing ----------------------------------------------------------------------------------------


def take_cards(write: WriteTransaction, placements: Sequence[JobPlacement]) -> dict[str, Row]:
    """Add the new seats to the cards' rows.

    Args:
        write: The transaction; the caller commits it.
        placements: Seats with the generation that the plan has read of each card.

    Returns:
        The rows as they are now, by the card's uuid.

    Raises:
        StaleGeneration: A card has changed since the plan; nothing is written.
    """
    read: dict[str, int] = {}
    taken: dict[str, Counter[str]] = defaultdict(Counter)
    seats = list[Seat]()
    for placement in placements:
        seats += placement.seats
        for seat, generation in zip(placement.seats, placement.generations, strict=True):
            # One plan may place several jobs on a card: all have read the same generation.
            read.setdefault(seat.device, generation)
            taken[seat.device].update(milli=seat.gpu_milli, bytes=seat.memory_bytes, shares=1)
    # One row per card, not per seat: the first update of a card raises the generation that a second
    # one would name.
    rows = list[dict[str, Any]]()
    for uuid, use in taken.items():
        amounts = {"milli": use["milli"], "bytes": use["bytes"], "more": use["shares"]}
        rows.append({"card": uuid, "read": read[uuid], **amounts})
    if rows and write.execute(_TAKE, rows).rowcount != len(rows):
        raise StaleGeneration("a card changed while the plan was made", hint="plan again")
    _add_pieces(write, seats)
    return {row.uuid: row for row in write.execute(_BY_UUID, {"cards": list(taken)})}


def _add_pieces(write: WriteTransaction, taken: Iterable[Seat]) -> None:
    """Add partitions to the rows of their cards; raise StaleGeneration where they cannot be cut."""
    more: dict[str, list[PartitionSlot]] = defaultdict(list)
    for seat in taken:
        if seat.partition is not None:
            more[seat.device].append(seat.partition)
    for row in write.execute(_PIECES.where(devices.c.uuid.in_(more))) if more else ():
        # The generation protects the card from other plans, this check from a plan that is wrong:
        # the driver would refuse the cut only when the job starts.
        profiles = read_profiles(row.facts.get("profiles", ()))
        occupied = read_occupied_slots(row.facts, row.pieces)
        for slot in more[row.uuid]:
            if not can_add_slot(profiles, occupied, slot):
                raise StaleGeneration(
                    f"card {row.uuid} cannot be cut as was planned", hint="plan again"
                )
            occupied = (*occupied, slot)
        now = (*read_partition_slots(row.pieces), *more[row.uuid])
        write.execute(_CUT, {"card": row.id, "now": write_partition_slots(now)})


def free_cards(write: WriteTransaction, freed: Mapping[int, Counter[str]]) -> None:
    """Subtract amounts from the cards' rows.

    Args:
        write: The transaction.
        freed: Milli-devices, bytes and shares, by the row's id.
    """
    rows = list[dict[str, int]]()
    for card, use in freed.items():
        amounts = {"milli": use["milli"], "bytes": use["bytes"], "fewer": use["shares"]}
        rows.append({"card": card, **amounts})
    if rows:
        write.execute(_FREE, rows)


def remove_pieces(write: WriteTransaction, seats_back: Iterable[Row]) -> None:
    """Remove the pieces of these seats from their cards' rows."""
    less: dict[int, list[PartitionSlot]] = defaultdict(list)
    for seat in seats_back:
        if (piece := read_piece(seat)) is not None:
            less[seat.device_id].append(piece)
    for row in write.execute(_PIECES.where(devices.c.id.in_(less))) if less else ():
        left = [piece for piece in read_partition_slots(row.pieces) if piece not in less[row.id]]
        # A card of which nothing is cut has NULL, as before its first cut.
        write.execute(_CUT, {"card": row.id, "now": write_partition_slots(left) or None})


def bump_card_generations(
    write: WriteTransaction, read: Mapping[str, int]
) -> tuple[CardUpdate, ...]:
    """Raise the generation of cards on which a migration holds seats from now on.

    A plan that has read them before becomes stale, because it did not know of the hold.

    Args:
        write: The transaction.
        read: The generation that was read, by uuid.

    Raises:
        StaleGeneration: A card has changed; nothing is written.
    """
    rows = [{"card": uuid, "read": generation} for uuid, generation in read.items()]
    if rows and write.execute(_NAME, rows).rowcount != len(rows):
        raise StaleGeneration("a card changed since the plan was made", hint="plan again")
    return read_cards(write.connection, read)


# Reading -----------------------------------------------------------------------------------------


def read_cards(connection: sa.Connection, uuids: Iterable[str]) -> tuple[CardUpdate, ...]:
    """Read what is allocated of these cards, by uuid."""
    return build_card_updates(connection.execute(_BY_UUID, {"cards": list(uuids)}))


def read_cards_by_id(connection: sa.Connection, ids: Iterable[int]) -> tuple[CardUpdate, ...]:
    """Read what is allocated of these cards, by the ids of their rows."""
    return build_card_updates(connection.execute(_BY_ID, {"cards": list(ids)}))


def read_all_cards(connection: sa.Connection) -> tuple[CardUpdate, ...]:
    """Read what is allocated of every card, and nothing else of it."""
    return build_card_updates(connection.execute(_USE))


def build_card_updates(rows: Iterable[Row]) -> tuple[CardUpdate, ...]:
    """Build updates from rows as `take_cards` returns them."""
    updates = list[CardUpdate]()
    for row in rows:
        pieces = read_partition_slots(row.pieces)
        updates.append(CardUpdate(row.uuid, row.used_milli, row.used_bytes, row.generation, pieces))
    return tuple(updates)
