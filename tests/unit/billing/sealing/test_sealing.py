"""Month seals on both databases: what is sealed stays, whatever comes later."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from gpupool.base.errors import BadOption, MonthNotOver, SealedMonth, UnknownTenant
from gpupool.billing.documents.month import read_month
from gpupool.billing.documents.statement import build_statement
from gpupool.billing.sealing.service import NO_SEAL
from gpupool.billing.sealing.tables import month_lines
from gpupool.billing.service import Billing
from gpupool.metering.energy.tables import energy_slots
from gpupool.wire.billing.energy import EnergyFactorIn
from gpupool.wire.billing.statements import AdjustmentIn, StatementOut
from tests.support.billing_books import ADMIN, bill, charge_from, make_prices, settle
from tests.support.energy_books import draw_for
from tests.support.metering_books import DAY, HOUR, START_S, Pool, S

pytest_plugins = ["tests.support.postgres_fixtures"]
#: The pool of the books begins in this month.
MONTH = "2023-11"
END_S = int(datetime(2023, 12, 1, tzinfo=UTC).timestamp())


def run_month(pool: Pool) -> Billing:
    """A month in which ada holds a third of a card for a day, and a bit of the next month."""
    billing = bill(pool, tax_basis_points=1900)
    held = pool.grant(0, 0, 333, 8192)
    pool.metering.factors.set(ADMIN, EnergyFactorIn(pue_milli=1300, grid_milligrams=500_000))
    draw_for(pool, 60, [360, 36])
    pool.time.forward(DAY - 120)
    assert held is not None
    pool.release(held)
    pool.time.forward(END_S - START_S - DAY)
    settle(pool, billing)
    return billing


def read_statement(pool: Pool, tenant: str | None = None) -> StatementOut:
    with pool.store.read() as connection:
        return build_statement(read_month(connection, MONTH), tenant)


def test_a_sealed_month_stays_and_a_changed_line_is_seen(any_pool: Pool) -> None:
    billing = run_month(any_pool)
    before = read_statement(any_pool)
    seal = billing.seals.seal(ADMIN, MONTH)
    assert (seal.previous, seal.intact) == (NO_SEAL, True)
    dear = make_prices(from_ns=END_S * S, rates=[{"model": "*", "price_micro": 99_000_000}])
    billing.prices.put("dear", dear)
    billing.charging.catch_up()
    # The energy is the seal's: neither its slots nor later factors change it.
    assert before.energy_milliwatt_hours == 3_996 + 9_204
    assert before.co2e_milligrams == 2_597 + 5_982
    any_pool.metering.factors.set(ADMIN, EnergyFactorIn(pue_milli=9000, grid_milligrams=1))
    with any_pool.store.write() as write:
        write.execute(energy_slots.delete())
    after = read_statement(any_pool)
    assert after.sha256 == seal.sha256
    assert after.model_copy(update={"sealed": False, "sha256": None}) == before
    assert after.closing is not None
    assert after.closing.closes
    with any_pool.store.write() as write:
        row = write.execute(sa.select(month_lines).where(month_lines.c.number == 0)).one()
        line = row.line | {"amount_micro": row.line["amount_micro"] - 1}
        write.execute(month_lines.update().where(month_lines.c.number == 0).values(line=line))
    assert [one.intact for one in billing.seals.list_all()] == [False]


def test_nothing_changes_a_sealed_month_and_entries_correct_it(pool: Pool) -> None:
    billing = run_month(pool)
    with pytest.raises(MonthNotOver):
        billing.seals.seal(ADMIN, "2023-12")
    check_statement(read_statement(pool, "vision"))
    billing.seals.seal(ADMIN, MONTH)
    for month in (MONTH, "2023-10"):
        with pytest.raises(SealedMonth):
            billing.seals.seal(ADMIN, month)
    with pytest.raises(SealedMonth):
        billing.prices.put("list", make_prices())
    with pytest.raises(SealedMonth):
        billing.prices.put("other", make_prices(from_ns=(END_S - 3600) * S))
    with pytest.raises(SealedMonth):
        billing.prices.delete("list")
    assert [one.name for one in billing.prices.list_all()] == ["list"]
    body = AdjustmentIn(tenant="vision", amount_micro=-12_500_000, reason="outage", corrects=MONTH)
    entry = billing.seals.adjust(ADMIN, body)
    assert (entry.month, entry.corrects) == ("2023-12", MONTH)
    assert read_statement(pool, "vision").adjustments == []
    assert [one.id for one in billing.seals.list_entries(ADMIN)] == [entry.id]
    with pytest.raises(UnknownTenant):
        billing.seals.adjust(ADMIN, body.model_copy(update={"tenant": "other"}))
    with pytest.raises(BadOption):
        billing.seals.adjust(ADMIN, body.model_copy(update={"corrects": "2023-12"}))


@pytest.mark.parametrize("timezone", ["Asia/Shanghai", "America/New_York"])
def test_a_month_of_another_zone_begins_where_the_sealed_one_ends(
    pool: Pool, timezone: str
) -> None:
    billing = Billing(pool.store)
    pool.grant(0, 0, 1000, 8192)
    pool.time.forward(END_S - 3 * HOUR - START_S)
    charge_from(pool, END_S - 3 * HOUR)
    pool.time.forward(3 * HOUR)
    settle(pool, billing)
    billing.seals.seal(ADMIN, MONTH)
    billing.prices.put("list", make_prices(from_ns=END_S * S, timezone=timezone))
    body = AdjustmentIn(tenant="vision", amount_micro=-12_500_000, reason="outage")
    # In New York this is still the evening of the last day of November.
    assert billing.seals.adjust(ADMIN, body).month == "2023-12"
    pool.time.forward(8 * HOUR)
    settle(pool, billing)
    with pool.store.read() as connection:
        month = read_month(connection, "2023-12")
    assert month.start_s == END_S
    assert month.closes
    assert sum(line.card_milliseconds for line in month.lines if line.is_paid) == (
        (month.end_s - END_S) * 1000
    )


def check_statement(statement: StatementOut) -> None:
    """A third of a card for a day, in whole cents, with its tax."""
    total = statement.totals[0]
    cents = (3_600_001 * 24 * 333 // 1000 + 5_000) // 10_000 * 10_000
    assert total.lines_micro == cents == sum(line.amount_micro for line in statement.lines)
    assert total.tax_micro == round(cents * 0.19 / 10_000) * 10_000
    assert total.total_micro == total.lines_micro + total.tax_micro
    assert statement.closing is None
    assert {line.tenant for line in statement.lines} == {"vision"}
