"""Arrays as the ledger and the lists have them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.tables import arrays
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.wire.jobs import JobOut
from tests.support.house import House

MILLION = 1_000_000


def count(house: House, table: sa.Table) -> int:
    with house.store.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def array_row(house: House) -> sa.Row[tuple[object, ...]]:
    with house.store.read() as connection:
        return connection.execute(sa.select(arrays)).one()


def listed(house: House, **wanted: Any) -> list[JobOut]:
    return house.allocations.jobs.list_jobs(house.admin, JobFilter(**wanted), None, 100).items
