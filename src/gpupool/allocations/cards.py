"""What is held of cards, in the cards' own rows: taken under the generation that was read, cut into pieces, given back.

Changed by `ledger`, which writes the seats in the same transaction so that the two cannot drift apart, and named by
whoever keeps a card for later. Which card it is to be was decided before; one that is not as it was read any more is
refused with StaleGeneration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.held import piece_of
from gpupool.allocations.notes import CardNote
from gpupool.base.errors import StaleGeneration
from gpupool.fleet.tables import devices, nodes
from gpupool.model.allocation import Seat
from gpupool.model.device import DeviceState
from gpupool.model.partition import Placement as PartitionPlace
from gpupool.model.partition import is_valid_set, pieces_json, read_pieces, read_profiles
from gpupool.scheduling.snapshot import Placement
from gpupool.store.database import Write

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
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
    nodes.c.agent,
).join(nodes, nodes.c.id == devices.c.node_id)
_BY_UUID = _CARDS.where(devices.c.uuid.in_(sa.bindparam("cards", expanding=True)))
_BY_ID = _CARDS.where(devices.c.id.in_(sa.bindparam("cards", expanding=True)))
_USE = sa.select(devices.c.uuid, devices.c.used_milli, devices.c.used_bytes, devices.c.generation, devices.c.pieces)
_PIECES = sa.select(devices.c.id, devices.c.uuid, devices.c.facts, devices.c.pieces)
_CUT = devices.update().where(devices.c.id == sa.bindparam("card")).values(pieces=sa.bindparam("now"))


# Changing ----------------------------------------------------------------------------------------


def take_cards(write: Write, placements: Sequence[Placement]) -> dict[str, Row]:
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
    if write.execute(_TAKE, rows).rowcount != len(rows):
        raise StaleGeneration("a card changed while the plan was made", hint="plan again")
    _cut(write, [seat for placement in placements for seat in placement.seats])
    return {row.uuid: row for row in write.execute(_BY_UUID, {"cards": list(taken)})}


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


def free_cards(write: Write, freed: Mapping[int, Counter[str]]) -> None:
    """Take so much off the cards' rows: milli, bytes and shares, by the row's number."""
    write.execute(
        _FREE,
        [
            {"card": card, "milli": use["milli"], "bytes": use["bytes"], "fewer": use["shares"]}
            for card, use in freed.items()
        ],
    )


def uncut(write: Write, seats_back: Iterable[Row]) -> None:
    """Note the pieces that are given back."""
    less: dict[int, list[PartitionPlace]] = defaultdict(list)
    for seat in seats_back:
        if (piece := piece_of(seat)) is not None:
            less[seat.device_id].append(piece)
    for row in write.execute(_PIECES.where(devices.c.id.in_(less))) if less else ():
        left = [piece for piece in read_pieces(row.pieces) if piece not in less[row.id]]
        write.execute(_CUT, {"card": row.id, "now": pieces_json(left) or None})


def name_cards(write: Write, read: Mapping[str, int]) -> tuple[CardNote, ...]:
    """Cards of which something is kept from now on, by the generation that was read of each; as they are then.

    So no other plan that has read them before can be written any more. Raises StaleGeneration and leaves nothing.
    """
    rows = [{"card": uuid, "read": generation} for uuid, generation in read.items()]
    if rows and write.execute(_NAME, rows).rowcount != len(rows):
        raise StaleGeneration("a card changed since the plan was made", hint="plan again")
    return read_cards(write.connection, read)


# Reading -----------------------------------------------------------------------------------------


def read_cards(connection: sa.Connection, uuids: Iterable[str]) -> tuple[CardNote, ...]:
    """What these cards hold now."""
    return card_notes(connection.execute(_BY_UUID, {"cards": list(uuids)}))


def read_cards_by_id(connection: sa.Connection, ids: Iterable[int]) -> tuple[CardNote, ...]:
    """The same, by the numbers of their rows."""
    return card_notes(connection.execute(_BY_ID, {"cards": list(ids)}))


def read_all_cards(connection: sa.Connection) -> tuple[CardNote, ...]:
    """What every card holds now, and nothing else of it."""
    return card_notes(connection.execute(_USE))


def card_notes(rows: Iterable[Row]) -> tuple[CardNote, ...]:
    """From rows as `take_cards` gives them."""
    return tuple(
        CardNote(row.uuid, row.used_milli, row.used_bytes, row.generation, read_pieces(row.pieces)) for row in rows
    )
