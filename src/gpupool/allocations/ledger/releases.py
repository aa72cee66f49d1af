"""Releases of allocations: seats, cards, hosts, holdings and the meter, in one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.cards import (
    free_cards,
    read_cards_by_id,
    remove_pieces,
)
from gpupool.allocations.ledger.holdings import add_holdings
from gpupool.allocations.ledger.hosts import free_hosts
from gpupool.allocations.store.tables import allocations, seats
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
from gpupool.model.allocation import AllocationState
from gpupool.network.ports import delete_ports
from gpupool.store.database import WriteTransaction

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_RELEASE = (
    allocations.update()
    .where(allocations.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(state=AllocationState.RELEASED, released_ns=sa.bindparam("released"))
)
_SEATS = sa.select(seats).where(
    seats.c.allocation_id.in_(sa.bindparam("allocations", expanding=True))
)


def release_allocations(
    write: WriteTransaction,
    metering: MeteringService,
    fleet: FleetService,
    tenant_of: Mapping[int, int],
    returned: Iterable[str] = (),
) -> LedgerChange:
    """Release allocations: seats, cards, hosts, holdings and the meter.

    Args:
        write: The transaction; the caller commits it.
        metering: Closes the intervals of the seats.
        fleet: Settles cards that wait for their last seat.
        tenant_of: The tenant of each allocation, by row ids.
        returned: The public ids of their jobs.
    """
    if not tenant_of:
        return LedgerChange()
    # Read before anything is released. Rows of seats stay after the release, for the record, so a
    # second release of the same allocation would subtract twice: callers check its state.
    freed: dict[int, Counter[str]] = defaultdict(Counter)
    by_tenant: dict[int, Counter[str]] = defaultdict(Counter)
    held = write.execute(_SEATS, {"allocations": list(tenant_of)}).all()
    for seat in held:
        use = {"milli": seat.gpu_milli, "bytes": seat.memory_bytes}
        freed[seat.device_id].update(use, shares=1)
        by_tenant[tenant_of[seat.allocation_id]].subtract(use)
    free_cards(write, freed)
    remove_pieces(write, held)
    hosts = free_hosts(write, list(tenant_of))
    write.execute(_RELEASE, {"ids": list(tenant_of), "released": write.now_ns})
    metering.close_allocations(write, tenant_of)
    delete_ports(write, list(tenant_of))
    write.touch_ledger()
    # A draining card that has lost its last seat is done with draining.
    fleet.settle_devices(write, list(freed))
    write.announce("queue")
    return LedgerChange(
        cards=read_cards_by_id(write.connection, freed),
        tenants=add_holdings(write, by_tenant),
        hosts=hosts,
        returned=tuple(returned),
    )
