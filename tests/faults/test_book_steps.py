"""A server that is killed at a commit of its books: hours of reservations, a month's seal, energy.

What has happened is recorded once after the next start, and the sums are exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import claims
from gpupool.billing.charging.tables import charges, reserved_hours
from gpupool.billing.documents.lines import BillLine, read_lines
from gpupool.billing.service import Billing
from gpupool.metering.books import DAY_S, MICRO
from gpupool.metering.energy.tables import energy_slots
from gpupool.metering.rollup import roll_up
from gpupool.store.database import Store, sqlite_url
from gpupool.store.faults import STEPS, Fault
from tests.faults.child_server import Kill, die
from tests.support.billing_books import bill, settle
from tests.support.energy_books import draw_for
from tests.support.metering_books import ADMIN, CARD_MIB, DAY, HOUR, START_S, Pool, granted
from tests.support.reservation_books import reserve
from tests.unit.billing.sealing.test_sealing import END_S, MONTH

#: A reservation of one L40S from 1,800 s on, by a price of 500 micro-units a second.
PRICES = {
    "reserved_milli": 500,
    "rates": [{"model": "L40S", "price_micro": 3_600_000}, {"model": "*", "price_micro": 1}],
}
RESERVED_S = 2 * HOUR


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "gpupool.db")


def count(store: Store, *columns: sa.ColumnElement[Any]) -> tuple[Any, ...]:
    with store.read() as connection:
        return tuple(connection.execute(sa.select(*columns)).one())


# Money ------------------------------------------------------------------------------------------


def list_reserved(store: Store) -> list[BillLine]:
    with store.read() as connection:
        lines = read_lines(connection, START_S, START_S + 40 * DAY_S)
    return [line for line in lines if line.kind == "reserved"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_the_hours_of_a_reservation_are_recorded_once(url: str, step: str, number: int) -> None:
    length_s = 1800 + 600 + 9 * HOUR

    def charge(fault: Fault) -> None:
        pool = Pool(url)
        billing = bill(pool, **PRICES)
        reserve(pool, "nightly", 1800, RESERVED_S)
        pool.time.forward(1800)
        job = pool.grant(0, 0, 400, CARD_MIB // 2)
        assert job is not None
        with pool.store.write() as write:
            write.execute(claims.update().values(reservation="nightly"))
        pool.time.forward(600)
        pool.release(job)
        pool.time.forward(9 * HOUR)
        pool.store._fault = fault
        billing.charging.catch_up()

    die(charge, Kill(step, number))
    pool = Pool.reopen(url, length_s)
    Billing(pool.store).charging.catch_up()
    names = ("used_micro_seconds", "unused_micro_seconds", "missing_micro_seconds")
    parts = count(pool.store, *(sa.func.sum(reserved_hours.c[name]) for name in names))
    # The job holds half of the card's memory, for 600 s.
    assert parts == (300 * MICRO, (RESERVED_S - 300) * MICRO, 0)
    (line,) = list_reserved(pool.store)
    assert line.amount_micro == 500 * (RESERVED_S - 300)
    charged, hours = count(
        pool.store,
        sa.func.sum(charges.c.card_milliseconds),
        sa.func.count(charges.c.hour_s.distinct()),
    )
    assert (charged + line.card_milliseconds, hours) == (2 * 9 * HOUR * 1000, 9)


@pytest.mark.nightly  # a month of hours takes seconds
@pytest.mark.parametrize("step", STEPS)
def test_a_month_is_sealed_once_with_its_reservations(url: str, step: str) -> None:
    def seal(fault: Fault) -> None:
        pool = Pool(url)
        billing = bill(pool, **PRICES)
        reserve(pool, "nightly", 1800, RESERVED_S)
        pool.time.forward(END_S - START_S)
        settle(pool, billing)
        pool.store._fault = fault
        billing.seals.seal(ADMIN, MONTH)

    die(seal, Kill(step))
    pool = Pool.reopen(url, END_S - START_S + 2 * HOUR)
    billing = Billing(pool.store)
    if step == "before-commit":
        assert billing.seals.list_all() == []
        billing.seals.seal(ADMIN, MONTH)
    assert [(one.month, one.intact) for one in billing.seals.list_all()] == [(MONTH, True)]
    statement = billing.statements.make_statement(ADMIN, MONTH, None)
    assert statement.closing is not None
    assert statement.closing.closes
    assert statement.closing.reserved_micro == 1000 * RESERVED_S
    assert [line.amount_micro for line in list_reserved(pool.store)] == [500 * RESERVED_S]


# Energy -----------------------------------------------------------------------------------------


def read_energy(store: Store) -> tuple[int, int]:
    """Milliwatt-hours, and the width of the widest slot."""
    energy, width_s = energy_slots.c.milliwatt_hours, energy_slots.c.width_s
    found = count(store, sa.func.sum(energy), sa.func.max(width_s))
    return int(found[0]), int(found[1])


@pytest.mark.nightly
@pytest.mark.parametrize("step", STEPS)
def test_a_batch_of_energy_counts_once(url: str, step: str) -> None:
    def measure(fault: Fault) -> None:
        pool = Pool(url)
        granted(pool)
        draw_for(pool, 120, [360])
        pool.metering.write_and_fold = lambda: None  # type: ignore[method-assign]
        draw_for(pool, 120, [360])
        pool.store._fault = fault
        pool.metering.energy.write_due()

    die(measure, Kill(step))
    pool = Pool.reopen(url, 360)
    # 180 s at 360 W are 18 Wh.
    kept = 18_000 if step == "before-commit" else 36_000
    assert read_energy(pool.store)[0] == kept
    draw_for(pool, 120, [360])
    assert read_energy(pool.store)[0] == kept + 18_000


@pytest.mark.nightly
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("step", STEPS)
def test_slots_that_are_widened_keep_their_sum(url: str, step: str, number: int) -> None:
    length_s = 3 * (360 + HOUR) + 3 * DAY

    def widen(fault: Fault) -> None:
        pool = Pool(url)
        granted(pool)
        for _ in range(3):
            draw_for(pool, 300, [360, 36])
            pool.time.forward(HOUR)
        pool.time.forward(3 * DAY)
        pool.store._fault = fault
        roll_up(pool.store)

    die(widen, Kill(step, number))
    pool = Pool.reopen(url, length_s)
    # Three times 360 s at 396 W.
    assert read_energy(pool.store)[0] == 3 * 39_600
    roll_up(pool.store)
    assert read_energy(pool.store) == (3 * 39_600, HOUR)
