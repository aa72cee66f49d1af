"""Running jobs and their resizes, in one line each."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.units import GIB
from gpupool.model.tenant import Principal
from gpupool.wire.fleet import WorkOut
from gpupool.wire.jobs import JobOut, ResizedOut, ResizeIn
from gpupool.wire.people import QuotaIn
from tests.support.house import House


def running(
    house: House, name: str, gpu_milli: int = 300, memory_gib: int | None = 8, **options: object
) -> JobOut:
    house.submit(gpu_milli, memory_gib, name=name, **options)
    job = house.job(name)
    item = next(item for item in house.work() if item.job == job.id)
    house.report(item, "running", started_ns=5)
    return house.job(name)


def resize(
    house: House,
    name: str,
    milli: int | None = None,
    gib: int | None = None,
    who: Principal | None = None,
) -> ResizedOut:
    size = None if gib is None else gib * GIB
    return house.allocations.resizes.resize_job(
        name, ResizeIn(gpu_milli=milli, memory_bytes=size), who or house.admin
    )


def work_of(house: House, name: str) -> WorkOut:
    job = house.job(name)
    return next(item for item in house.work() if item.job == job.id)


def rows(house: House, table: sa.Table) -> list[sa.Row[tuple[object, ...]]]:
    with house.store.read() as connection:
        return list(connection.execute(sa.select(table)))


def quota(house: House, tenant: str, **parts: Any) -> None:
    if tenant not in house.allocations.cache.build_snapshot().tenants:
        house.tenancy.tenants.create(house.admin, tenant, None)
    house.tenancy.put_quota(house.admin, tenant, QuotaIn(**parts))
