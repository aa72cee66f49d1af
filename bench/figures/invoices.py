"""Invoices of 1,000 tenants over 12 months of a simulated ledger: months are sealed, each tenant's
invoice of each month is a workbook, and the lines add up to capacity times price.

Times are processor time: the work is of one thread and waits for nothing, and a busy machine does
not change it.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.rows import Row
from gpupool.base.clock import LedgerClock
from gpupool.billing.charging.marks import ChargeMarks, write_charge_marks
from gpupool.billing.charging.tables import charges
from gpupool.billing.documents.lines import BillLine, compute_line_cost
from gpupool.billing.documents.month import MonthBill, read_month
from gpupool.billing.documents.statement import build_statement
from gpupool.billing.documents.xlsx import write_workbook
from gpupool.billing.periods import find_month, parse_zone
from gpupool.billing.service import Billing
from gpupool.metering.books import DAY_S, HOUR_S, MICRO, WHOLE_MILLI
from gpupool.model.tenant import Principal, UserRole
from gpupool.server.schema import metadata
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.tables import pool
from gpupool.tenancy.tables import projects, tenants
from gpupool.wire.billing.prices import PriceListIn

NAME = "invoices"
TENANTS = 1000
MONTHS = tuple(f"2026-{month:02}" for month in range(1, 13))
#: Micro-units per card and hour.
PRICES = {"H200": 3_333_333, "L40S": 777_777}
#: Cards of each model: more than any hour holds.
CARDS = 2000
#: Seconds for all of it: the figure that issue 17 asks for.
LIMIT_S = 60.0
_COMMAND = "python -m bench invoices"
_ADMIN = Principal(1, "root", 1, "t-0001", UserRole.ADMIN)
_START_S = find_month(MONTHS[0], parse_zone("UTC")).start_s
_END_S = find_month(MONTHS[-1], parse_zone("UTC")).end_s


def run(out: Path) -> list[Row]:
    store = _open_pool(out / "invoices.db")
    try:
        billing = Billing(store)
        billing.prices.put("list", _make_prices())
        rows = _fill_charges(store)
        return [*_measure(store, billing), Row("rows of charges", "rows", rows, _COMMAND)]
    finally:
        store.close()


def _measure(store: Store, billing: Billing) -> list[Row]:
    started = time.process_time()
    for month in MONTHS:
        billing.seals.seal(_ADMIN, month)
    sealed_s = time.process_time() - started
    made = 0
    wrong = 0
    for month in MONTHS:
        with store.read() as connection:
            bill = read_month(connection, month)
        wrong += not _is_exact(bill)
        for name, part in _split_by_tenant(bill).items():
            write_workbook(build_statement(part, name), "en")
            made += 1
    total_s = time.process_time() - started
    return [
        Row("seal 12 months of 1,000 tenants", "s", round(sealed_s, 2), _COMMAND),
        Row("seal, and an invoice for each", "s", round(total_s, 2), _COMMAND, limit=LIMIT_S),
        Row("invoices", "workbooks", made, _COMMAND),
        Row("months whose sums are not exact", "months", wrong, _COMMAND, limit=0),
    ]


def _is_exact(bill: MonthBill) -> bool:
    """Compare with the capacity and the price alone, to the micro-unit."""
    days = (bill.end_s - bill.start_s) // DAY_S
    capacity = Fraction(0)
    for price in PRICES.values():
        capacity += Fraction(CARDS * days * price)  # one hour of each day
    listed = sum(line.list_micro for line in bill.lines)
    shown = build_statement(bill, None)
    exact = Fraction(0)
    for line in bill.lines:
        exact += compute_line_cost(line) if line.kind == "tenant" else 0
    # Each tenant's sum is rounded to a cent, once.
    shown_micro = sum(total.lines_micro for total in shown.totals)
    return listed == round(capacity) and abs(shown_micro - exact) <= TENANTS * 5_000


def _split_by_tenant(bill: MonthBill) -> dict[str, MonthBill]:
    lines: dict[str, list[BillLine]] = defaultdict(list)
    for line in bill.lines:
        if line.kind == "tenant":
            lines[line.tenant].append(line)
    return {name: replace(bill, lines=mine) for name, mine in lines.items()}


def _open_pool(path: Path) -> Store:
    engine = connect(sqlite_url(path))
    metadata.create_all(engine)
    first = {"id": 1, "pool_id": "p", "holder": "", "event_seq": 0, "generation": 1, "ledger_ns": 0}
    with engine.begin() as connection:
        connection.execute(pool.insert().values(**first))
        for table in (tenants, projects):
            connection.execute(table.insert(), list(_list_owners(table is projects)))
    store = open_store(engine, "bench")
    store.clock = LedgerClock(wall=_read_end, boot=_read_end)
    return store


def _list_owners(of_tenant: bool) -> Iterator[dict[str, Any]]:
    for number in range(1, TENANTS + 1):
        row = {"id": number, "name": f"t-{number:04}", "created_ns": 0}
        yield row | ({"tenant_id": number, "name": "default"} if of_tenant else {})


def _read_end() -> int:
    return (_END_S + DAY_S) * 10**9


def _make_prices() -> PriceListIn:
    rates = [{"model": model, "price_micro": price} for model, price in PRICES.items()]
    return PriceListIn.model_validate(
        {"from_ns": _START_S * 10**9, "currency": "EUR", "rates": rates, "tax_basis_points": 1900}
    )


def _fill_charges(store: Store) -> int:
    """An hour of each day: each tenant holds a share of one model, the rest of the cards is idle."""
    draw = random.Random(17)
    count = 0
    for day_s in range(_START_S, _END_S, DAY_S):
        rows = list(_draw_day(day_s, draw))
        count += len(rows)
        with store.write() as write:
            write.execute(charges.insert(), rows)
    with store.write() as write:
        write_charge_marks(write, ChargeMarks(_START_S, _END_S + DAY_S - HOUR_S))
    return count


def _draw_day(day_s: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    left = dict.fromkeys(PRICES, CARDS * MICRO * HOUR_S)
    for tenant in range(1, TENANTS + 1):
        model = draw.choice(list(PRICES))
        held = draw.randrange(1, 1000) * draw.randrange(1, HOUR_S)
        charged = held * (MICRO // WHOLE_MILLI)
        left[model] -= charged
        sharing = draw.choice(("fixed", "burst"))
        yield _build_row(day_s, "tenant", tenant, model, sharing, held, charged)
    for model, charged in left.items():
        yield _build_row(day_s, "idle", 0, model, "", charged // (MICRO // WHOLE_MILLI), charged)


def _build_row(
    hour_s: int, kind: str, tenant: int, model: str, sharing: str, held: int, charged: int
) -> dict[str, Any]:
    return {
        "hour_s": hour_s,
        "kind": kind,
        "tenant_id": tenant,
        "project_id": tenant,
        "user_id": tenant,
        "model": model,
        "mechanism": "",
        "sharing": sharing,
        "preemptible": False,
        "card_milliseconds": held,
        "memory_mib_seconds": 0,
        "charged_micro_seconds": charged,
        "base_micro": PRICES[model],
        "price_micro": PRICES[model],
        "factor_milli": WHOLE_MILLI,
    }
