"""Past usage of tenants: read from the books at start, then carried along in memory."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.metering.past import read_past_use
from gpupool.metering.tables import intervals, usage_days, usage_hours
from gpupool.scheduling.quota.usage_decay import MICRO_PER_CARD
from tests.support.house import House


def test_the_books_remember_what_was_held_and_what_is_held_still(house: House) -> None:
    house.submit(500, 8)
    house.submit(250, 8)
    house.allocations.placer.run_cycle()
    with house.store.write() as write:
        now_s = write.now_ns // 10**9
        half, quarter = (intervals.c.gpu_milli == milli for milli in (500, 250))
        write.execute(
            intervals.update().where(half).values(start_s=now_s - 7200, end_s=now_s - 3600)
        )
        write.execute(intervals.update().where(quarter).values(start_s=now_s - 1800))
    with house.store.read() as connection:
        found = read_past_use(connection, now_s, half_life_s=10**9)
    held = 3600 * 500_000 + 1800 * 250_000
    assert found == pytest.approx({"default": held}, rel=1e-4)
    house.allocations.placer.load()
    assert house.allocations.cache.build_snapshot().tenants["default"].past == pytest.approx(
        held, rel=0.02
    )


def test_hours_and_days_of_the_books_are_remembered_less(house: House) -> None:
    with house.store.write() as write:
        project = write.execute(sa.text("SELECT id FROM projects")).scalar_one()
        device = write.execute(sa.text("SELECT min(id) FROM devices")).scalar_one()
        who = {
            "device_id": device,
            "tenant_id": 1,
            "project_id": project,
            "user_id": 1,
            "under": "pooled",
        }
        amounts = {
            "card_milliseconds": 0,
            "memory_mib_seconds": 0,
            "dominant_micro_seconds": 3600 * MICRO_PER_CARD,
        }
        write.execute(usage_hours.insert().values(hour_s=360_000, job_id=1, **who, **amounts))
        write.execute(usage_days.insert().values(day_s=0, **who, **amounts))
    with house.store.read() as connection:
        found = read_past_use(connection, 360_000 + 3600 + 864_000, half_life_s=86_400)
    day, hour = 2 ** (-(363_600 + 864_000 - 43_200) / 86_400), 2 ** (-(864_000 + 1800) / 86_400)
    assert found["default"] == pytest.approx((day + hour) * 3600 * MICRO_PER_CARD, rel=0.03)
