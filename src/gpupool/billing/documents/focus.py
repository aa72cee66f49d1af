"""Write a month as FOCUS 1.2 (FinOps Open Cost and Usage Specification), a CSV of charges.

A row is what a project held of one model at one price in one hour. What was left of the cards is of
the pool's own sub-account, so ListCost adds up to the capacity times its price. Column names and
allowed values: https://focus.finops.org/focus-specification/v1-2/.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from io import StringIO
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.billing.charging.tables import charges
from gpupool.billing.documents.cells import HOUR_MICRO, HOUR_MS, KWH_MILLI, guard_cell
from gpupool.billing.documents.energy import EnergyKey, divide_energy, read_hours
from gpupool.billing.documents.lines import BillLine
from gpupool.billing.documents.month import AdjustmentEntry, MonthBill
from gpupool.billing.documents.statement import select_lines
from gpupool.billing.money import format_money
from gpupool.billing.periods import find_month, parse_zone
from gpupool.metering.books import HOUR_S
from gpupool.metering.reading import sum_bigint
from gpupool.tenancy.tables import projects, tenants

#: The sub-account of what no tenant held.
POOL_ACCOUNT = "(pool)"
PROVIDER = "gpupool"
COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_GpuMilliHours",
    "x_MemoryGiBHours",
    "x_Model",
    "x_EnergyKwh",
)


@dataclass(frozen=True)
class FocusRow:
    """One line's part of one stretch of time; the parts of a line add up to it."""

    line: BillLine
    start_s: int
    end_s: int
    card_milliseconds: int
    memory_mib_seconds: int
    charged_micro_seconds: int
    list_micro: int
    amount_micro: int
    energy_milliwatt_hours: int | None = None


def write_focus(rows: Iterable[FocusRow], bill: MonthBill, tenant: str | None, pool: str) -> bytes:
    """Write the rows and the entries of a month as CSV, with a mark of UTF-8 for spreadsheets."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    common = _build_common(bill, pool)
    for row in rows:
        writer.writerow(common | _build_usage(row))
    for entry in bill.adjustments:
        if tenant in (None, entry.tenant):
            writer.writerow(common | _build_adjustment(entry, bill))
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def read_focus_rows(
    connection: sa.Connection, bill: MonthBill, tenant: str | None
) -> Iterator[FocusRow]:
    """Read the hours of a month's lines; a line whose hours are deleted is one row."""
    lines = {_build_key(line): line for line in select_lines(bill, tenant)}
    parts = {key: _LineParts(line) for key, line in lines.items()}
    hours = read_hours(connection, bill.start_s, bill.end_s)
    yield from _add_energy(_take_hours(connection, bill, tenant, parts), hours)
    deleted = [part.take_whole(bill) for part in parts.values() if not part.has_hours]
    whole = {(bill.start_s, line.key): line.milliwatt_hours for line in bill.energy}
    yield from _add_energy(deleted, whole)


def _take_hours(
    connection: sa.Connection,
    bill: MonthBill,
    tenant: str | None,
    parts: Mapping[tuple[Any, ...], _LineParts],
) -> Iterator[FocusRow]:
    for row in connection.execute(_select_hours(bill, tenant)):
        part = parts.get(_build_key(row))
        if part is not None:
            yield part.take_hour(row)


def _add_energy(
    rows: Iterable[FocusRow], energy: Mapping[tuple[int, EnergyKey], int]
) -> Iterator[FocusRow]:
    for row, milliwatt_hours in divide_energy(rows, energy):
        yield replace(row, energy_milliwatt_hours=milliwatt_hours)


class _LineParts:
    """Gives each hour its part of a line's rounded amounts, so that they add up to them."""

    def __init__(self, line: BillLine) -> None:
        self._line = line
        self._charged = 0
        self._list = 0
        self._amount = 0
        self.has_hours = False

    def take_hour(self, row: Any) -> FocusRow:
        line = self._line
        self.has_hours = True
        self._charged += row.charged_micro_seconds
        list_micro = self._take_part(line.list_micro) - self._list
        amount_micro = self._take_part(line.amount_micro) - self._amount
        self._list += list_micro
        self._amount += amount_micro
        return FocusRow(
            line,
            row.hour_s,
            row.hour_s + HOUR_S,
            row.card_milliseconds,
            row.memory_mib_seconds,
            row.charged_micro_seconds,
            list_micro,
            amount_micro,
        )

    def take_whole(self, bill: MonthBill) -> FocusRow:
        line = self._line
        return FocusRow(
            line,
            bill.start_s,
            bill.end_s,
            line.card_milliseconds,
            line.memory_mib_seconds,
            line.charged_micro_seconds,
            line.list_micro,
            line.amount_micro,
        )

    def _take_part(self, micro: int) -> int:
        total = self._line.charged_micro_seconds
        return micro * self._charged // total if total else 0


def _build_key(line: Any) -> tuple[Any, ...]:
    return (
        line.kind,
        line.tenant,
        line.project,
        line.model,
        line.mechanism,
        line.sharing,
        bool(line.preemptible),
        line.base_micro,
        line.price_micro,
        line.factor_milli,
    )


def _select_hours(bill: MonthBill, tenant: str | None) -> sa.Select[Any]:
    c = charges.c
    owner = (
        sa.func.coalesce(tenants.c.name, "").label("tenant"),
        sa.func.coalesce(projects.c.name, "").label("project"),
    )
    keys = (
        c.hour_s,
        c.kind,
        c.model,
        c.mechanism,
        c.sharing,
        c.preemptible,
        c.base_micro,
        c.price_micro,
        c.factor_milli,
    )
    sums = ("card_milliseconds", "memory_mib_seconds", "charged_micro_seconds")
    query = (
        sa.select(*owner, *keys, *(sum_bigint(c[name]).label(name) for name in sums))
        .select_from(charges)
        .outerjoin(tenants, tenants.c.id == c.tenant_id)
        .outerjoin(projects, projects.c.id == c.project_id)
        .where(c.hour_s >= bill.start_s, c.hour_s < bill.end_s)
    )
    if tenant is not None:
        query = query.where(tenants.c.name == tenant)
    return query.group_by(tenants.c.name, projects.c.name, *keys).order_by(c.hour_s, *owner)


def _build_common(bill: MonthBill, pool: str) -> dict[str, str]:
    period = find_month(bill.month, parse_zone(bill.timezone))
    return {
        "BillingAccountId": pool,
        "BillingAccountName": pool,
        "BillingCurrency": bill.currency,
        "BillingPeriodStart": _format_second(period.start_s),
        "BillingPeriodEnd": _format_second(period.end_s),
        # An invoice exists once the month is sealed.
        "InvoiceId": "" if bill.sha256 is None else f"{bill.month}-{bill.sha256[:12]}",
        "InvoiceIssuerName": PROVIDER,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Other (Compute)",
        "ServiceName": "GPU",
    }


def _build_usage(row: FocusRow) -> dict[str, str]:
    line = row.line
    is_tenant = line.kind == "tenant"
    account = guard_cell(line.tenant) if is_tenant else POOL_ACCOUNT
    cost = format_money(row.amount_micro if is_tenant else row.list_micro)
    hours = _format_ratio(row.charged_micro_seconds, HOUR_MICRO)
    sku = "/".join(filter(None, (line.model, line.mechanism, line.sharing)))
    tags = {"kind": line.kind}
    if line.project:
        tags["project"] = line.project
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ContractedCost": cost,
        "ListCost": format_money(row.list_micro),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": guard_cell(f"{line.model} {line.kind}"),
        "ChargePeriodStart": _format_second(row.start_s),
        "ChargePeriodEnd": _format_second(row.end_s),
        "ConsumedQuantity": _format_ratio(row.card_milliseconds, HOUR_MS),
        "ConsumedUnit": "Hours",
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": "Hours",
        "ListUnitPrice": format_money(line.base_micro or 0),
        "ContractedUnitPrice": _format_unit_price(line),
        "ResourceId": guard_cell(sku),
        "ResourceName": guard_cell(line.model),
        "ResourceType": "GPU",
        "SkuId": guard_cell(sku),
        "SkuPriceId": guard_cell(f"{sku}@{line.price_micro or 0}x{line.factor_milli}"),
        "SubAccountId": account,
        "SubAccountName": account,
        "Tags": json.dumps(tags, ensure_ascii=False),
        "x_GpuMilliHours": _format_ratio(row.card_milliseconds, HOUR_S),
        "x_MemoryGiBHours": _format_ratio(row.memory_mib_seconds, 1024 * HOUR_S),
        "x_Model": guard_cell(line.model),
        # Empty: unknown.
        "x_EnergyKwh": ""
        if row.energy_milliwatt_hours is None
        else _format_ratio(row.energy_milliwatt_hours, KWH_MILLI),
    }


def _format_unit_price(line: BillLine) -> str:
    price = Decimal((line.price_micro or 0) * line.factor_milli).scaleb(-9)
    return format(price.normalize(), "f")


def _build_adjustment(entry: AdjustmentEntry, bill: MonthBill) -> dict[str, str]:
    cost = format_money(entry.amount_micro)
    account = guard_cell(entry.tenant)
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ContractedCost": cost,
        "ListCost": "0.00",
        "ChargeCategory": "Adjustment" if entry.corrects or entry.amount_micro > 0 else "Credit",
        "ChargeClass": "Correction" if entry.corrects else "",
        "ChargeFrequency": "One-Time",
        "ChargeDescription": guard_cell(entry.reason),
        "ChargePeriodStart": _format_second(bill.start_s),
        "ChargePeriodEnd": _format_second(bill.end_s),
        "SubAccountId": account,
        "SubAccountName": account,
        "Tags": json.dumps({"kind": "entry", "entry": entry.id}),
    }


def _format_second(second: int) -> str:
    return format_instant(second * NANOS_PER_SECOND)


def _format_ratio(number: int, unit: int) -> str:
    """Format a ratio with nine decimals at most, as a plain decimal."""
    ratio = (Decimal(number) / unit).quantize(Decimal(10) ** -9)
    return format(ratio.normalize(), "f")
