"""The latest charged hour closes on real books, and a fault of the books or charges is measured."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from gpupool.billing.charging.latest_hour import BooksGap, LatestHour
from gpupool.billing.charging.tables import charges
from gpupool.metering.rollup import roll_up
from gpupool.metering.tables import intervals
from gpupool.store.database import sqlite_url
from tests.support.billing_books import bill, settle
from tests.support.metering_books import CARD_MIB, DAY, HOUR, START_S, Pool

WHOLE = 2 * HOUR * 1000


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(sqlite_url(tmp_path / "gpupool.db"))
    yield made
    made.engine.dispose()


def test_an_hour_is_there_once_its_charges_are_made(pool: Pool) -> None:
    latest = LatestHour(pool.store)
    latest.refresh()
    assert latest.value is None
    billing = bill(pool)
    pool.grant(0, 0, 300, 8192)
    settle(pool, billing)
    latest.refresh()
    found = latest.value
    assert found is not None
    assert (found.start_s - START_S) % HOUR == 0
    assert sum(found.kinds.values()) == WHOLE
    assert found.gap == BooksGap(0, 0, 0)
    (tenant,) = found.tenants
    assert (tenant.tenant, tenant.card_milliseconds) == ("vision", 300 * HOUR)
    assert tenant.cost_micro is not None
    assert tenant.cost_micro > Fraction(0)


def test_a_card_that_is_held_twice_is_measured_although_another_is_idle(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 700, 30000)
    settle(pool, billing)
    with pool.store.write() as write:
        write.execute(intervals.update().values(gpu_milli=1400, memory_mib=60000))
    billing.latest_hour.refresh()
    found = billing.latest_hour.value
    assert found is not None
    assert found.gap.overbooked_ms == 400 * HOUR
    assert found.gap.overbooked_mib_s == (60000 - CARD_MIB) * HOUR
    assert found.gap.uncharged_ms == 0


def test_a_charge_that_is_lost_is_measured(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 300, 8192)
    settle(pool, billing)
    with pool.store.write() as write:
        write.execute(charges.delete().where(charges.c.kind == "tenant"))
    billing.latest_hour.refresh()
    found = billing.latest_hour.value
    assert found is not None
    assert found.gap == BooksGap(0, 0, 300 * HOUR)
    assert found.tenants == ()


def test_a_cost_without_a_price_is_unknown(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 300, 8192)
    settle(pool, billing)
    with pool.store.write() as write:
        write.execute(charges.update().values(price_micro=None, base_micro=None))
    billing.latest_hour.refresh()
    found = billing.latest_hour.value
    assert found is not None
    assert [one.cost_micro for one in found.tenants] == [None]


def test_of_an_hour_that_was_folded_into_a_day_nothing_is_said(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 300, 8192)
    settle(pool, billing)
    pool.time.forward(40 * DAY)
    with pool.store.write():
        pass
    roll_up(pool.store)
    billing.latest_hour.refresh()
    found = billing.latest_hour.value
    assert found is not None
    assert found.gap is None
