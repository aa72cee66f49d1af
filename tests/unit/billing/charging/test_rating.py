"""Charges of real books, on both databases: they are the capacity, at the price of each hour."""

from __future__ import annotations

from fractions import Fraction

import sqlalchemy as sa

from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.spending import SpendingOwner, read_spending
from gpupool.billing.charging.tables import charges
from gpupool.billing.documents.lines import read_lines
from gpupool.billing.service import Billing
from gpupool.metering.books import MICRO, add_up_account
from tests.support.billing_books import bill, make_prices, settle
from tests.support.metering_books import CARD_MIB, HOUR, START_S, Pool, S

pytest_plugins = ["tests.support.postgres_fixtures"]
ADA = SpendingOwner(2)


def capacity_micro(pool: Pool, price_of: dict[int, int], until_s: int) -> Fraction:
    """Capacity times price from the pool's own notes of its cards, without any of our tables."""
    total = Fraction(0)
    for span in pool.spans:
        end = until_s if span.end_s is None else min(span.end_s, until_s)
        price = price_of[span.device]
        total += Fraction(max(0, end - max(span.start_s, START_S)) * price, HOUR)
    return total


def device_prices(pool: Pool) -> dict[int, int]:
    """L40S is the card with index 0, the other one has the price of every model."""
    ids = sorted({span.device for span in pool.spans})
    return {ids[0]: 3_600_001, ids[1]: 1_000_000}


def test_lines_at_the_cards_price_are_capacity_times_price(any_pool: Pool) -> None:
    billing = bill(any_pool)
    any_pool.grant(0, 0, 300, 8192)
    any_pool.time.forward(1234)
    any_pool.grant(2, 0, 333, 23000)
    any_pool.time.forward(4321)
    any_pool.drain(1)
    settle(any_pool, billing)
    with any_pool.store.read() as connection:
        marks = read_charge_marks(connection)
        assert marks is not None
        lines = read_lines(connection, marks.first_s, marks.next_s)
    until_s = marks.next_s
    assert until_s > START_S + 4321 + 1234
    exact = capacity_micro(any_pool, device_prices(any_pool), until_s)
    assert sum(line.list_micro for line in lines) == round(exact)
    assert {line.kind for line in lines} == {"tenant", "idle", "unmanaged"}
    charged = sum(line.charged_micro_seconds for line in lines)
    assert charged == 2 * MICRO * (until_s - START_S)


def test_a_tenant_pays_for_what_the_plain_arithmetic_says(any_pool: Pool) -> None:
    billing = bill(any_pool)
    held = any_pool.grant(0, 0, 300, 30000)
    any_pool.time.forward(5000)
    assert held is not None
    any_pool.release(held)
    settle(any_pool, billing)
    book = add_up_account(
        list(any_pool.seats.values()), any_pool.spans, START_S, START_S + 2 * HOUR
    )
    # Its memory is the larger part: 30000 of 46068 MiB.
    assert book.owners["ada"].dominant_micro_seconds == 5000 * (30000 * MICRO // CARD_MIB)
    with any_pool.store.read() as connection:
        spent = read_spending(connection, ADA, START_S, START_S + 2 * HOUR)
    assert spent.micro == Fraction(
        book.owners["ada"].dominant_micro_seconds * 3_600_001, MICRO * HOUR
    )
    assert spent.card_milliseconds == 300 * 5000


def test_spending_is_the_same_before_and_after_its_hours_have_charges(any_pool: Pool) -> None:
    billing = bill(any_pool)
    any_pool.grant(0, 0, 300, 8192)
    any_pool.time.forward(3000)
    any_pool.grant(1, 1, 500, 100)
    any_pool.time.forward(4000)
    with any_pool.store.write():
        pass
    end_s = START_S + 7000
    with any_pool.store.read() as connection:
        young = read_spending(connection, ADA, START_S, end_s)
        assert read_charge_marks(connection) is None
    settle(any_pool, billing)
    with any_pool.store.read() as connection:
        # What came after is running on: take it away again.
        later = read_spending(connection, ADA, START_S, START_S + 3 * HOUR)
    assert young.card_milliseconds == 300 * 7000 + 500 * 4000
    assert later.card_milliseconds == 300 * 3 * HOUR + 500 * (3 * HOUR - 3000)
    assert young.micro > 0


def test_charges_are_made_once_whatever_comes_between(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 300, 8192)
    settle(pool, billing)
    before = dump_charges(pool)
    assert before
    billing.charging.catch_up()
    pool.start()
    billing.charging.catch_up()
    assert dump_charges(pool) == before


def test_a_new_price_is_charged_from_its_hour_on(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 1000, CARD_MIB)
    pool.time.forward(3 * HOUR)
    settle(pool, billing)
    later = make_prices(
        from_ns=(START_S + HOUR) * S, rates=[{"model": "*", "price_micro": 7_000_000}]
    )
    billing.prices.put("later", later)
    billing.charging.catch_up()
    with pool.store.read() as connection:
        spent = [
            read_spending(connection, ADA, START_S + n * HOUR, START_S + (n + 1) * HOUR).micro
            for n in range(2)
        ]
    assert spent == [3_600_001, 7_000_000]


def test_without_a_price_list_hours_are_counted_and_cost_nothing(pool: Pool) -> None:
    billing = Billing(pool.store)
    pool.grant(0, 0, 500, 8192)
    settle(pool, billing)
    with pool.store.read() as connection:
        spent = read_spending(connection, ADA, START_S, START_S + HOUR)
    assert (spent.micro, spent.card_milliseconds) == (0, 500 * HOUR)


def dump_charges(pool: Pool) -> list[tuple[object, ...]]:
    with pool.store.read() as connection:
        rows = connection.execute(sa.select(charges).order_by(*charges.primary_key.columns))
        return [tuple(row) for row in rows]
