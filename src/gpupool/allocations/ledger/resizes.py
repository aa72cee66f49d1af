"""New sizes of the seats of an allocation, written under a new generation in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.cards import (
    free_cards,
    read_cards_by_id,
)
from gpupool.allocations.ledger.holdings import add_holdings
from gpupool.allocations.ledger.running_jobs import (
    read_holders,
)
from gpupool.allocations.store.tables import allocations, seats
from gpupool.base.units import MIB
from gpupool.metering.service import MeteringService
from gpupool.store.database import WriteTransaction

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_SET_SEAT = (
    seats.update()
    .where(
        seats.c.allocation_id == sa.bindparam("allocation"),
        seats.c.device_id == sa.bindparam("card"),
    )
    .values(gpu_milli=sa.bindparam("milli"), memory_bytes=sa.bindparam("bytes"))
)
_NEW_GENERATION = (
    allocations.update()
    .where(allocations.c.id == sa.bindparam("allocation"))
    .values(generation=sa.bindparam("now"), work_seq=sa.bindparam("now"))
)


@dataclass(frozen=True)
class SeatResize:
    """The old and the new size of one seat, in milli-devices and bytes."""

    #: Row id of the card.
    card: int
    milli: int
    size: int
    milli_before: int
    size_before: int


def resize_allocation(
    write: WriteTransaction,
    metering: MeteringService,
    job: str,
    allocation: int,
    tenant: int,
    changes: Sequence[SeatResize],
) -> LedgerChange:
    """Write new sizes of all seats of an allocation under a new generation.

    The caller has checked that they fit, in the same transaction.
    """
    freed = dict[int, Counter[str]]()
    rows = list[dict[str, int]]()
    metered = dict[int, tuple[int, int]]()
    growth: Counter[str] = Counter()
    for change in changes:
        reduction = _measure_reduction(change)
        # Growth is a negative reduction: one statement serves both directions.
        freed[change.card] = Counter(reduction)
        growth.subtract(reduction)
        size = {"milli": change.milli, "bytes": change.size}
        rows.append({"allocation": allocation, "card": change.card, **size})
        metered[change.card] = (change.milli, change.size // MIB)
    free_cards(write, freed)
    write.execute(_SET_SEAT, rows)
    metering.resize_seats(write, allocation, metered)
    # The new generation tells the agent to apply the size, and reports of the old one stay valid
    # until it has.
    write.execute(_NEW_GENERATION, {"allocation": allocation, "now": write.touch_ledger()})
    write.announce("queue")
    return LedgerChange(
        cards=read_cards_by_id(write.connection, list(freed)),
        tenants=add_holdings(write, {tenant: growth}),
        held=tuple(read_holders(write.connection, [job])),
    )


def _measure_reduction(change: SeatResize) -> dict[str, int]:
    return {
        "milli": change.milli_before - change.milli,
        "bytes": change.size_before - change.size,
        "shares": 0,
    }
