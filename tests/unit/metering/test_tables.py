"""Sums are added to a row that is there already, and made where none is."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.metering.tables import delivered, insert_or_add, usage_hours
from tests.support.metering_books import HOUR, Pool

OWNER = {"tenant_id": 2, "project_id": 2, "user_id": 10, "job_id": 1}


def add_use(pool: Pool, gpu: int | None, cpu: int | None, slot_s: int = 0) -> None:
    row = {"width_s": HOUR, "slot_s": slot_s, "gpu_milliseconds": gpu, "cpu_milliseconds": cpu}
    with pool.store.write() as write:
        write.execute(insert_or_add(write.connection, delivered), {**OWNER, **row})


def test_insert_or_add_keeps_what_is_known_beside_what_is_not(any_pool: Pool) -> None:
    add_use(any_pool, None, None)
    add_use(any_pool, 5, None)
    add_use(any_pool, None, 7)
    add_use(any_pool, 3, 1)
    add_use(any_pool, 100, None, slot_s=HOUR)
    with any_pool.store.read() as connection:
        columns = (delivered.c.slot_s, delivered.c.gpu_milliseconds, delivered.c.cpu_milliseconds)
        found = connection.execute(sa.select(*columns).order_by(delivered.c.slot_s)).all()
    assert [tuple(row) for row in found] == [(0, 8, 8), (HOUR, 100, None)]


def test_insert_or_add_sums_every_amount_of_a_key(any_pool: Pool) -> None:
    row = {"hour_s": 0, "device_id": 1, "under": "pooled", **OWNER, "card_milliseconds": 1}
    amounts = {"memory_mib_seconds": 20, "dominant_micro_seconds": 300}
    with any_pool.store.write() as write:
        for _ in range(2):
            write.execute(insert_or_add(write.connection, usage_hours), {**row, **amounts})
    with any_pool.store.read() as connection:
        (found,) = connection.execute(sa.select(usage_hours)).all()
    assert (found.card_milliseconds, found.memory_mib_seconds) == (2, 40)
    assert found.dominant_micro_seconds == 600
