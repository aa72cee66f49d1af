"""What cards and tenants hold, as the rows of the ledger say."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.fleet.tables import devices
from gpupool.tenancy.tables import tenants
from tests.support.house import House


def used(house: House) -> list[tuple[int, int, int]]:
    with house.store.read() as connection:
        query = sa.select(devices.c.used_milli, devices.c.used_bytes, devices.c.shares).order_by(
            devices.c.idx
        )
        return [tuple(row) for row in connection.execute(query)]


def held(house: House, tenant: str = "default") -> tuple[int, int]:
    with house.store.read() as connection:
        query = sa.select(tenants.c.held_milli, tenants.c.held_memory_bytes).where(
            tenants.c.name == tenant
        )
        return tuple(connection.execute(query).one())
