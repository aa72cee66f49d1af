"""Reservations in real books: what their tenants pay, and that the month closes with it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from fractions import Fraction
from io import StringIO
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.reservations import end_reservation
from gpupool.allocations.store.tables import claims
from gpupool.billing.charging.spending import Spending, SpendingOwner, read_spending
from gpupool.billing.charging.tables import reserved_hours
from gpupool.billing.documents.lines import BillLine, read_lines
from gpupool.billing.service import Billing
from gpupool.metering.books import DAY_S, MICRO
from gpupool.metering.rollup import roll_up
from tests.support.billing_books import ADMIN, bill, make_prices, settle
from tests.support.metering_books import CARD_MIB, HOUR, START_S, Pool, S
from tests.support.reservation_books import VISION, reserve

pytest_plugins = ["tests.support.postgres_fixtures"]
MONTH = "2023-11"
PRICE = 3_600_000


@dataclass(frozen=True)
class Held:
    """A pool with the reservation `nightly` of one L40S: from 1800 s on for two hours."""

    pool: Pool
    billing: Billing

    def read_lines(self, kind: str) -> list[BillLine]:
        with self.pool.store.read() as connection:
            lines = read_lines(connection, START_S, START_S + 40 * DAY_S)
        return [line for line in lines if line.kind == kind]

    def start_job(self, person: int, milli: int, memory_mib: int) -> int:
        """Start a job that names the reservation."""
        held = self.pool.grant(person, 0, milli, memory_mib)
        assert held is not None
        with self.pool.store.write() as write:
            latest = write.execute(sa.select(sa.func.max(claims.c.id))).scalar_one()
            write.execute(
                claims.update().where(claims.c.id == latest).values(reservation="nightly")
            )
        return held

    def settle(self) -> None:
        settle(self.pool, self.billing)


def hold(pool: Pool, **prices: Any) -> Held:
    rates = [{"model": "L40S", "price_micro": PRICE}, {"model": "*", "price_micro": 1_000_000}]
    billing = bill(pool, **({"reserved_milli": 500, "rates": rates} | prices))
    reserve(pool, "nightly", 1800, 2 * HOUR)
    return Held(pool, billing)


def test_a_tenant_pays_for_what_its_jobs_left_of_the_reservation(any_pool: Pool) -> None:
    held = hold(any_pool)
    any_pool.time.forward(1800 + 600)
    job = held.start_job(0, 1000, CARD_MIB)
    any_pool.time.forward(1000)
    any_pool.release(job)
    any_pool.time.forward(2 * HOUR)
    held.settle()
    (line,) = held.read_lines("reserved")
    assert (line.tenant, line.reservation) == ("vision", "nightly")
    assert line.card_milliseconds == 1000 * (2 * HOUR - 1000)
    # Half of 3.6 an hour is 500 micro-units a second.
    assert line.amount_micro == 500 * (2 * HOUR - 1000)
    (job_line,) = held.read_lines("tenant")
    assert (job_line.card_milliseconds, job_line.amount_micro) == (1000_000, 1000 * 1000)
    statement = held.billing.statements.make_statement(ADMIN, MONTH, None)
    closing = statement.closing
    assert closing is not None
    assert closing.closes
    assert closing.reserved_micro == 1000 * (2 * HOUR - 1000)
    parts = closing.tenants_micro + closing.reserved_micro + closing.idle_micro
    assert parts + closing.overhead_micro + closing.unmanaged_micro == closing.capacity_micro
    (total,) = statement.totals
    assert total.lines_micro == 500 * (2 * HOUR - 1000) + 1000 * 1000
    assert total.card_milliseconds == 1000_000


def test_the_parts_of_a_reservation_are_recorded_to_the_second(pool: Pool) -> None:
    held = hold(pool)
    pool.time.forward(1800 - 100)
    job = held.start_job(0, 400, CARD_MIB // 2)
    pool.time.forward(700)
    pool.release(job)
    pool.time.forward(2 * HOUR)
    held.settle()
    sums = [
        sa.func.sum(reserved_hours.c[name])
        for name in ("used_micro_seconds", "unused_micro_seconds", "missing_micro_seconds")
    ]
    with pool.store.read() as connection:
        recorded = tuple(connection.execute(sa.select(*sums)).one())
    # The job holds the larger part, half of the memory; what it did before is outside.
    assert recorded == (600 * MICRO // 2, 2 * HOUR * MICRO - 300 * MICRO, 0)


def test_spending_of_a_reservation_is_known_before_its_hours_have_charges(pool: Pool) -> None:
    held = hold(pool)
    pool.time.forward(HOUR)
    with pool.store.write():
        pass
    tenant = SpendingOwner(2)
    with pool.store.read() as connection:
        young = read_spending(connection, tenant, START_S, START_S + HOUR)
        project = read_spending(connection, SpendingOwner(2, 2), START_S, START_S + HOUR)
        other = read_spending(connection, SpendingOwner(3), START_S, START_S + HOUR)
    assert young.micro == Fraction(500 * 1800)
    assert project.micro == other.micro == 0
    # Half of the price, and whole hours.
    assert young.card_milliseconds == 1000 * 1800
    assert project.card_milliseconds == other.card_milliseconds == 0
    held.settle()
    with pool.store.read() as connection:
        assert read_spending(connection, tenant, START_S, START_S + HOUR) == young


def test_a_reservation_costs_nothing_without_a_part_of_the_price(pool: Pool) -> None:
    held = hold(pool, reserved_milli=0)
    pool.time.forward(3 * HOUR)
    held.settle()
    assert held.read_lines("reserved") == []
    with pool.store.read() as connection:
        spent = read_spending(connection, SpendingOwner(2), START_S, START_S + 4 * HOUR)
    assert spent == Spending()
    (idle,) = [line for line in held.read_lines("idle") if line.model == "L40S"]
    assert idle.charged_micro_seconds == MICRO * idle.card_milliseconds // 1000


def test_a_deleted_reservation_is_charged_up_to_then_and_a_card_that_failed_not(
    pool: Pool,
) -> None:
    held = hold(pool)
    pool.time.forward(1800 + 500)
    pool.health(0, "failed")
    pool.time.forward(300)
    pool.health(0, "ok")
    pool.time.forward(700)
    with pool.store.write() as write:
        end_reservation(write, "nightly", VISION)
    # Of the same name: a line of its own.
    reserve(pool, "nightly", 2 * HOUR, 60)
    pool.time.forward(2 * HOUR)
    held.settle()
    first, second = sorted(held.read_lines("reserved"), key=lambda line: -line.card_milliseconds)
    assert first.card_milliseconds == 1000 * (500 + 700)
    assert second.card_milliseconds == 1000 * 60
    assert first.reservation_id != second.reservation_id


def test_a_later_price_is_charged_for_hours_that_the_books_have_folded(pool: Pool) -> None:
    held = hold(pool)
    pool.time.forward(3 * HOUR)
    held.settle()
    (before,) = held.read_lines("reserved")
    pool.time.forward(3 * DAY_S)
    held.settle()
    roll_up(pool.store)
    body = make_prices(
        rates=[{"model": "*", "price_micro": 2 * PRICE}], reserved_milli=250, from_ns=START_S * S
    )
    held.billing.prices.put("list", body)
    assert held.read_lines("reserved") == []
    held.billing.charging.catch_up()
    (after,) = held.read_lines("reserved")
    assert after.card_milliseconds == before.card_milliseconds == 2 * HOUR * 1000
    assert (after.factor_milli, after.amount_micro) == (250, before.amount_micro)


def test_repetitions_of_any_model_are_charged_at_the_cheapest_that_is_idle(pool: Pool) -> None:
    held = hold(pool)
    until_ns = (START_S + 3 * HOUR) * S
    reserve(pool, "hourly", 1800, 60, 1000, None, every_seconds=HOUR, until_ns=until_ns)
    pool.time.forward(4 * HOUR)
    held.settle()
    (line,) = [one for one in held.read_lines("reserved") if one.reservation == "hourly"]
    assert (line.model, line.card_milliseconds) == ("T4", 3 * 60 * 1000)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_documents_name_the_reservation(pool: Pool, language: str) -> None:
    held = hold(pool)
    pool.time.forward(3 * HOUR)
    held.settle()
    make = held.billing.statements.make_document
    text = make(ADMIN, MONTH, "vision", "focus", language).content.decode("utf-8-sig")
    rows = list(csv.DictReader(StringIO(text)))
    assert {row["CapacityReservationStatus"] for row in rows} == {"Unused"}
    assert {row["ChargeDescription"] for row in rows} == {"L40S reserved, unused: nightly"}
    assert sum(Fraction(row["BilledCost"]) for row in rows) == Fraction(2 * HOUR * 500, MICRO)
    assert make(ADMIN, MONTH, None, "xlsx", language).content.startswith(b"PK")
