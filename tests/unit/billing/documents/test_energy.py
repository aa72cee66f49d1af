"""Energy of a month: the same in statement, workbook, FOCUS and seal; unknown stays unknown."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO, StringIO

import openpyxl
import pytest

from gpupool.billing.charging import service as charging
from gpupool.billing.charging.marks import read_charge_marks
from gpupool.billing.charging.service import SETTLE_S
from gpupool.billing.documents.energy import EnergyKey, divide_energy
from gpupool.billing.documents.month import read_month
from gpupool.billing.documents.service import Document
from gpupool.billing.documents.statement import build_statement
from gpupool.billing.documents.words import get_words
from gpupool.billing.service import Billing
from gpupool.metering.energy.meter import LATE_S
from gpupool.wire.billing.energy import EnergyFactorIn
from gpupool.wire.billing.statements import StatementOut
from tests.support.billing_books import ADMIN, bill, charge_from, settle
from tests.support.energy_books import draw_for
from tests.support.metering_books import DAY, HOUR, START_S, Pool

pytest_plugins = ["tests.support.postgres_fixtures"]
MONTH = "2023-11"


def run_hours(pool: Pool) -> Billing:
    """Two hours in which ada holds 0.3 and cyd 0.5 of a card, of which 660 s are measured."""
    billing = bill(pool)
    pool.metering.factors.set(ADMIN, EnergyFactorIn(pue_milli=1300, grid_milligrams=500_000))
    pool.grant(0, 0, 300, 8192)
    pool.grant(1, 0, 100, 100)
    pool.grant(2, 1, 500, 100)
    draw_for(pool, 600, [360, 36])
    pool.time.forward(HOUR)
    settle(pool, billing)
    return billing


def make(billing: Billing, form: str, tenant: str | None = None) -> Document:
    return billing.statements.make_document(ADMIN, MONTH, tenant, form, "en")  # type: ignore[arg-type]


def state(pool: Pool, tenant: str | None = None) -> StatementOut:
    with pool.store.read() as connection:
        return build_statement(read_month(connection, MONTH), tenant)


def focus(billing: Billing) -> list[dict[str, str]]:
    text = make(billing, "focus").content.decode("utf-8-sig")
    return list(csv.DictReader(StringIO(text)))


def test_focus_adds_up_where_the_first_hours_of_a_month_are_deleted(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charging, "KEPT_S", DAY)
    end_s = int(datetime(2023, 12, 1, tzinfo=UTC).timestamp())
    pool.time.forward(end_s - DAY - START_S)
    charge_from(pool, end_s - DAY)
    billing = bill(pool)
    pool.grant(0, 0, 333, 8192)
    early = pool.grant(2, 1, 500, 100)
    assert early is not None
    draw_for(pool, 600, [360, 36])
    pool.release(early)
    pool.time.forward(18 * HOUR)
    draw_for(pool, 600, [360, 36])
    pool.time.forward(6 * HOUR)
    settle(pool, billing)
    billing.seals.seal(ADMIN, MONTH)
    pool.time.forward(12 * HOUR)
    settle(pool, billing)
    with pool.store.read() as connection:
        marks = read_charge_marks(connection)
    assert marks is not None
    assert end_s - DAY < marks.first_s < end_s
    rows = focus(billing)
    statement = state(pool)
    assert statement.closing is not None
    listed = sum(Decimal(row["ListCost"]) for row in rows)
    assert listed * 1_000_000 == statement.closing.capacity_micro
    paid = sum(Decimal(row["BilledCost"]) for row in rows if row["SubAccountId"] != "(pool)")
    assert paid * 1_000_000 == statement.closing.tenants_micro - statement.closing.discounts_micro
    hours = sum(Decimal(row["ConsumedQuantity"]) for row in rows)
    assert round(hours * 3_600_000) == statement.closing.capacity_card_milliseconds
    energy = sum(Decimal(row["x_EnergyKwh"] or 0) for row in rows)
    assert energy * 1_000_000 == statement.energy_milliwatt_hours


def test_documents_show_the_energy_of_tenants_and_of_what_none_held(any_pool: Pool) -> None:
    billing = run_hours(any_pool)
    statement = state(any_pool)
    energy = {total.tenant: total.energy_milliwatt_hours for total in statement.totals}
    assert energy == {"vision": 26_400, "nlp": 3_300}
    assert statement.closing is not None
    assert statement.closing.unheld_energy_milliwatt_hours == 39_600 + 3_300
    assert statement.energy_milliwatt_hours == 72_600
    assert statement.co2e_milligrams == 17_160 + 2_145 + 27_885
    assert statement.measured_card_milliseconds == 2 * 660_000
    assert state(any_pool, "nlp").energy_milliwatt_hours == 3_300
    rows = focus(billing)
    assert sum(Decimal(row["x_EnergyKwh"] or 0) for row in rows) == Decimal("0.0726")
    # The hours without a sample are unknown.
    assert {
        row["x_EnergyKwh"] for row in rows if row["ChargePeriodStart"] > "2023-11-15T00:00:00Z"
    } == {""}
    book = openpyxl.load_workbook(BytesIO(make(billing, "xlsx").content))
    cells = [row for row in book["Statement"].iter_rows(values_only=True) if row[8] is not None]
    heads, *totals = cells
    assert heads[8:10] == ("Energy, kWh", "CO2e, kg")
    assert {row[0]: row[8] for row in totals} == {
        "vision": 0.0264,
        "nlp": 0.0033,
        get_words("en")["unheld"]: 0.0429,
        "Total": 0.0726,
    }
    assert make(billing, "pdf").content.startswith(b"%PDF-")
    assert make(billing, "pdf", "nlp").content.startswith(b"%PDF-")


def test_a_month_without_power_has_no_energy_and_no_zero(pool: Pool) -> None:
    billing = bill(pool)
    pool.grant(0, 0, 300, 8192)
    settle(pool, billing)
    statement = state(pool)
    assert statement.energy_milliwatt_hours is None
    assert {total.energy_milliwatt_hours for total in statement.totals} == {None}
    assert {row["x_EnergyKwh"] for row in focus(billing)} == {""}
    book = openpyxl.load_workbook(BytesIO(make(billing, "xlsx").content))
    row = next(r for r in book["Statement"].iter_rows(values_only=True) if r[0] == "vision")
    assert row[8:10] == ("--", "--")


def test_hours_that_are_charged_get_no_later_energy() -> None:
    assert LATE_S < SETTLE_S


class _Row:
    def __init__(self, start_s: int, tenant: str, held: int) -> None:
        self.start_s = start_s
        self.card_milliseconds = held
        self.line = EnergyLineNames(tenant)


class EnergyLineNames:
    """Owner and model of a line."""

    kind = "tenant"
    project = "default"
    model = "L40S"

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant


def test_rows_of_one_owner_divide_its_energy_by_what_they_held() -> None:
    rows = [
        _Row(0, "a", 2),
        _Row(0, "b", 5),
        _Row(0, "a", 1),
        _Row(3600, "a", 0),
        _Row(3600, "a", 0),
    ]
    key = EnergyKey("tenant", "a", "default", "L40S")
    parts = divide_energy(rows, {(0, key): 100, (3600, key): 3})
    assert [energy for _, energy in parts] == [67, 33, None, 2, 1]
